"""One conversation of the principal's, at the other end of the door.

Owns what the program has taken: the door is told with the next request, and keeps the rest. Each message has a key, so
that one that is sent again after a lost connection is the same message. Refuses to know tokens.
"""

from __future__ import annotations

import json
from contextlib import aclosing, contextmanager
from math import ceil
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import quote

import anyio
import httpx

from agentserver.client import values
from agentserver.client.errors import ProblemError, UnansweredError, UnreachableError
from agentserver.client.requests import Asked, Tries, fetch, may_come_again, streaming
from agentserver.client.sse import Lines
from agentserver.client.values import DoneEvent, ProgressEvent

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Mapping

    from agentserver.client.values import Event, ReplyEvent, SentMessage

Message: TypeAlias = "Mapping[str, Any] | bytes"

_WAIT: Final = 30.0
"""Seconds that one request waits for an answer."""

_SILENCE: Final = 60.0
"""Seconds without a sign of life after which a stream counts as lost."""

_LASTING: Final = 5.0
"""Seconds after which a connection that is lost was a good one, and the tries begin anew."""

_CLOSED: Final = "closed"
_BUSY: Final = "busy"


class RemoteConversation:
    """A conversation by its id. Made by a client.

    Args:
        http: the way to the door.
        key: the id.
        taken: the id of the last event that the program has taken, or empty.
        patience: seconds for which what failed is tried again.
    """

    def __init__(self, http: httpx.AsyncClient, key: str, taken: str, patience: float) -> None:
        self._http, self._patience = http, patience
        self._path = f"/v1/conversations/{quote(key, safe='')}"
        self._calls, self._streams, self._owed = 0, 0, set[str]()
        self._seen = taken
        self.id = key
        self.taken = taken

    async def send(
        self, message: Message, to: str | None = None, *, payload: str | None = None, key: str | None = None
    ) -> SentMessage:
        """Send a message and do not wait for its answer, which ``events`` gives.

        Args:
            message: an object as JSON has it, or XML as bytes.
            to: the listener; None leaves it to the payload.
            payload: its name, where the listener takes several; of JSON only.
            key: an id of the program's own; the same message under the same key is one message.

        Raises ProblemError when it is refused, UnreachableError.
        """
        key = key or token_urlsafe(16)
        asked = self._message(message, to, payload, key, 0.0)
        found = values.read_object((await fetch(self._http, asked, Tries(self._patience))).content)
        sent = values.SentMessage(values.text(found, "request"), key, values.text(found, "after"))
        self._owed.add(sent.request)
        return sent

    async def ask(
        self,
        message: Message,
        to: str | None = None,
        *,
        payload: str | None = None,
        key: str | None = None,
        within: float = 60.0,
    ) -> ReplyEvent | None:
        """Send a message and wait for its first answer. None when it has come to rest without one. See ``send``.

        Args:
            message: an object as JSON has it, or XML as bytes.
            to: the listener; None leaves it to the payload.
            payload: its name, where the listener takes several; of JSON only.
            key: an id of the program's own; the same message under the same key is one message.
            within: seconds in which it has to come.

        Raises ProblemError when it is refused or the answer is a SystemError, UnansweredError, UnreachableError.
        """
        tries, own = Tries(within), key is None
        key = key or token_urlsafe(16)
        with self._call():
            while True:
                asked = self._message(message, to, payload, key, max(1.0, min(_WAIT, tries.left)))
                try:
                    response = await fetch(self._http, asked, tries)
                except ProblemError as error:
                    if not (own and error.code == _BUSY and error.retry and await tries.pause()):
                        raise
                    key = token_urlsafe(16)  # under the one before it is refused for good
                    continue
                if response.status_code != httpx.codes.ACCEPTED:
                    return self._answer(response)
                request = values.text(values.read_object(response.content), "request")
                if not await tries.pause():
                    self._owed.add(request)
                    raise UnansweredError(key, request)

    async def events(self, after: str | None = None) -> AsyncGenerator[Event, None]:
        """Give the events as they come, until the conversation is closed. A stream that is lost is taken up again.

        An event counts as taken when the program comes back for the next one. What was not taken may come again.

        Args:
            after: the id of the event after which to begin; None for the last that was taken.

        Raises ProblemError, such as 401 once the token is revoked, UnreachableError.
        """
        tries = Tries(self._patience)
        self._streams += 1
        try:
            while True:
                async with aclosing(self._stream(after, tries)) as stream:
                    async for event in stream:
                        if event is None:
                            return
                        yield event
                        after = None if self._take(event) else after
                if not await tries.pause():
                    raise UnreachableError("the stream was lost and could not be taken up again")
        finally:
            self._streams -= 1

    async def cancel(self, request: str) -> bool:
        """End one request. False when it is at rest, or there is none. Raises ProblemError, UnreachableError."""
        return await self._delete(f"{self._path}/requests/{quote(request, safe='')}")

    async def close(self) -> bool:
        """End the conversation. False when there is none. Raises ProblemError, UnreachableError."""
        return await self._delete(self._path)

    async def _stream(self, after: str | None, tries: Tries) -> AsyncGenerator[Event | None, None]:
        """The events of one connection; None when there will be no more. Ends when another may be tried."""
        params = {} if after is None else {"after": after}
        headers = {} if after is not None else self._taken()
        asked = Asked("GET", f"{self._path}/events", params, headers, wait=_SILENCE)
        try:
            async with streaming(self._http, asked) as response:
                begun = anyio.current_time()
                async for found in _objects(response):
                    tries.renew()
                    if found.get("type") == "end":
                        break
                    event = values.event(found)
                    if event is not None:
                        yield event
                if anyio.current_time() - begun > _LASTING:
                    tries.renew()
                if found.get("reason") == _CLOSED:
                    yield None
        except ProblemError as error:
            if not may_come_again(error):
                raise
        except httpx.TransportError:
            return

    def _message(self, message: Message, to: str | None, payload: str | None, key: str, wait: float) -> Asked:
        named = {"to": to, "payload": payload}
        params = {name: value for name, value in named.items() if value is not None}
        xml = isinstance(message, bytes)
        body = message if isinstance(message, bytes) else json.dumps(message, ensure_ascii=False).encode()
        headers = {
            "content-type": "application/xml" if xml else "application/json",
            "accept": "application/json",
            "idempotency-key": key,
            **({} if wait else {"prefer": "respond-async"}),
            **self._taken(),
        }
        if wait:
            params["wait"] = str(ceil(wait))
        return Asked("POST", f"{self._path}/messages", params, headers, body, wait=wait)

    def _answer(self, response: httpx.Response) -> ReplyEvent | None:
        found: ReplyEvent | None = None
        if response.status_code == httpx.codes.NO_CONTENT:
            place = response.headers.get("agentserver-place", "")
        else:
            found = values.reply(values.read_object(response.content))
            place = found.place
        self._seen = max(self._seen, place, key=_order)
        return found

    async def _delete(self, path: str) -> bool:
        try:
            await fetch(self._http, Asked("DELETE", path), Tries(self._patience))
        except ProblemError as error:
            if error.status in (httpx.codes.NOT_FOUND, httpx.codes.GONE):
                return False
            raise
        return True

    @contextmanager
    def _call(self) -> Iterator[None]:
        """Count a request for an answer. What was answered is taken once no other answer can be under way."""
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1
            if not (self._calls or self._streams or self._owed):
                self.taken = self._seen

    def _take(self, event: Event) -> bool:
        """The program has come back for the next event. True when there is a place to come back to."""
        if isinstance(event, ProgressEvent) or not event.place:
            return False
        if isinstance(event, DoneEvent):
            self._owed.discard(event.request)
        self.taken = self._seen = event.place
        return True

    def _taken(self) -> Mapping[str, str]:
        return {"last-event-id": self.taken} if self.taken else {}


async def _objects(response: httpx.Response) -> AsyncGenerator[Mapping[str, Any], None]:
    lines = Lines()
    async for piece in response.aiter_bytes():
        for data in lines.feed(piece):
            yield values.read_object(data)


def _order(place: str) -> tuple[int, ...]:
    """The order of the ids of events: a version and a position."""
    return tuple(int(part) for part in place.split("-") if part.isdigit())
