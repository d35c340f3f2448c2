"""One conversation of the principal's, at the other end of the door.

Owns that each message has a key, so that one that is sent again after a lost connection is the same message. With each
request the door is told how far the program has taken the events. Refuses to know tokens.
"""

from __future__ import annotations

import json
from contextlib import aclosing
from dataclasses import replace
from math import ceil
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import quote

import httpx

from agentserver.client import values
from agentserver.client.errors import ProblemError, UnansweredError
from agentserver.client.requests import Asked, Tries, fetch
from agentserver.client.taken import Taken
from agentserver.client.watching import Watching

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from agentserver.client.values import Event, ReplyEvent, SentMessage

Message: TypeAlias = "Mapping[str, Any] | bytes"

_WAIT: Final = 30.0
"""Seconds that one request waits for an answer."""

_BUSY: Final = "busy"

_REQUEST: Final = "agentserver-request"

_BEGINNING: Final = "0-0"
"""The place before all events."""


class RemoteConversation:
    """A conversation by its id. Made by a client.

    Args:
        http: the way to the door.
        key: the id.
        taken: the id of the last event that the program has taken, or empty.
        patience: seconds for which what failed is tried again.
    """

    def __init__(self, http: httpx.AsyncClient, key: str, taken: str, patience: float) -> None:
        self._http, self._patience, self._taken = http, patience, Taken(taken)
        self._path = f"/v1/conversations/{quote(key, safe='')}"
        self.id = key

    @property
    def taken(self) -> str:
        """The id of the last event that the program has taken; empty for none."""
        return self._taken.place

    async def send(
        self, message: Message, to: str | None = None, *, payload: str | None = None, key: str | None = None
    ) -> SentMessage:
        """Send a message and do not wait for its answer, which ``events`` gives.

        Args:
            message: an object as JSON has it, or XML as bytes.
            to: the listener; None leaves it to the payload.
            payload: its name, where the listener takes several; of JSON only.
            key: an id of the program's own; the same message under the same key is one message.

        Raises ProblemError when it is refused, or was sent before and answered with a SystemError; UnreachableError.
        """
        key = key or token_urlsafe(16)
        asked = self._message(message, to, payload, key, 0.0)
        response = await fetch(self._http, asked, Tries(self._patience))
        if response.status_code != httpx.codes.ACCEPTED:  # it was sent before, and has its answer
            return values.SentMessage(
                response.headers.get(_REQUEST, ""), key, _BEGINNING, again=_again(response)
            )
        found = values.read_object(response.content)
        request, after = values.text(found, "request"), values.text(found, "after")
        self._taken.owe(request)
        return values.SentMessage(request, key, after, again=_again(response))

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
        tries, own, again = Tries(within), key is None, None
        key = key or token_urlsafe(16)
        with self._taken.asking():
            while True:
                asked = self._message(message, to, payload, key, max(1.0, min(_WAIT, tries.left)))
                response = await self._fetched(asked, tries, own=own)
                if response is None:
                    key, again = token_urlsafe(16), None
                    continue
                again = _again(response) if again is None else again  # the first answer knows it
                if response.status_code != httpx.codes.ACCEPTED:
                    return self._answer(response, again=again)
                found = values.read_object(response.content)
                request = values.text(found, "request")
                if not await tries.pause():
                    self._taken.owe(request)
                    raise UnansweredError(key, request, values.waiting(found))

    async def events(self, after: str | None = None) -> AsyncGenerator[Event, None]:
        """Give the events as they come, until the conversation is closed. A stream that is lost is taken up again.

        An event counts as taken when the program comes back for the next one. What was not taken may come again.

        Args:
            after: the id of the event after which to begin; None for the last that was taken.

        Raises ProblemError, such as 401 once the token is revoked, UnreachableError.
        """
        watching = Watching(self._http, f"{self._path}/events", self._taken, after, Tries(self._patience))
        with self._taken.streaming():
            async with aclosing(watching.events()) as events:
                async for event in events:
                    yield event

    async def cancel(self, request: str) -> bool:
        """End one request. False when it is at rest, or there is none. Raises ProblemError, UnreachableError."""
        return await self._delete(f"{self._path}/requests/{quote(request, safe='')}")

    async def close(self) -> bool:
        """End the conversation. False when there is none. Raises ProblemError, UnreachableError."""
        return await self._delete(self._path)

    async def _fetched(self, asked: Asked, tries: Tries, *, own: bool) -> httpx.Response | None:
        """The answer to a message; None where it was refused as busy for good, and may go under another key."""
        try:
            return await fetch(self._http, asked, tries)
        except ProblemError as error:
            if own and error.code == _BUSY and error.retry and await tries.pause():
                return None
            raise

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
            **self._taken.headers,
        }
        if wait:
            params["wait"] = str(ceil(wait))
        return Asked("POST", f"{self._path}/messages", params, headers, body, wait=wait)

    def _answer(self, response: httpx.Response, *, again: bool) -> ReplyEvent | None:
        found: ReplyEvent | None = None
        if response.status_code == httpx.codes.NO_CONTENT:
            request = response.headers.get(_REQUEST, "")
            place = response.headers.get("agentserver-place", "")
        else:
            found = replace(values.reply(values.read_object(response.content)), again=again)
            request, place = found.request, found.place
        self._taken.answered(request, place)
        return found

    async def _delete(self, path: str) -> bool:
        try:
            await fetch(self._http, Asked("DELETE", path), Tries(self._patience))
        except ProblemError as error:
            if error.status in (httpx.codes.NOT_FOUND, httpx.codes.GONE):
                return False
            raise
        return True


def _again(response: httpx.Response) -> bool:
    """Tell whether the message that is answered was there before, under the same key."""
    return bool(response.headers.get("agentserver-again") == "true")
