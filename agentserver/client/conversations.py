"""One conversation of a principal, through the door.

Each message has an idempotency key, so that resending it after a lost connection does not duplicate it. Each
request acknowledges the events that the program has taken.
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
from agentserver.client.events import AckCursor, EventWatcher
from agentserver.client.requests import PendingRequest, RetryPolicy, fetch

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from agentserver.client.values import Event, ReplyEvent, SentMessage

Message: TypeAlias = "Mapping[str, Any] | bytes"

_WAIT: Final = 30.0
"""Seconds for which one request waits for an answer."""

_BUSY: Final = "busy"

_REQUEST: Final = "agentserver-request"

_BEGINNING: Final = "0-0"
"""Place before the first event."""


class RemoteConversation:
    """Conversation at a door, opened by a client.

    Args:
        http: connection to the door.
        key: the id.
        taken: id of the last event that the program has taken, or empty.
        patience: seconds for which failed requests are retried.
    """

    def __init__(self, http: httpx.AsyncClient, key: str, taken: str, patience: float) -> None:
        self._http, self._patience, self._cursor = http, patience, AckCursor(taken)
        self._path = f"/v1/conversations/{quote(key, safe='')}"
        self.id = key

    @property
    def last_taken(self) -> str:
        """Id of the last event that the program has taken; empty at the beginning."""
        return self._cursor.place

    async def send(
        self, message: Message, to: str | None = None, *, payload: str | None = None, key: str | None = None
    ) -> SentMessage:
        """Send a message without waiting for its answer, which ``events`` yields.

        Args:
            message: a JSON object, or XML as bytes.
            to: the listener; None lets the payload decide.
            payload: its name, if the listener takes several; for JSON only.
            key: idempotency key; a message sent again with it is the same message.

        Raises ProblemError if it is refused, or was sent before and answered with a SystemError; UnreachableError.
        """
        key = key or token_urlsafe(16)
        pending = self._make_message(message, to, payload, key, 0.0)
        response = await fetch(self._http, pending, RetryPolicy(self._patience))
        if response.status_code != httpx.codes.ACCEPTED:  # it was sent before and is answered
            return values.SentMessage(
                response.headers.get(_REQUEST, ""), key, _BEGINNING, again=_is_repeated(response)
            )
        found = values.read_object(response.content)
        request, after = values.read_text(found, "request"), values.read_text(found, "after")
        self._cursor.owe(request)
        return values.SentMessage(request, key, after, again=_is_repeated(response))

    async def ask(
        self,
        message: Message,
        to: str | None = None,
        *,
        payload: str | None = None,
        key: str | None = None,
        within: float = 60.0,
    ) -> ReplyEvent | None:
        """Send a message and wait for its first answer; None if it finished without one. See ``send``.

        Args:
            message: a JSON object, or XML as bytes.
            to: the listener; None lets the payload decide.
            payload: its name, if the listener takes several; for JSON only.
            key: idempotency key; a message sent again with it is the same message.
            within: seconds to wait.

        Raises ProblemError when it is refused or the answer is a SystemError, UnansweredError, UnreachableError.
        """
        retries, own, repeated = RetryPolicy(within), key is None, None
        key = key or token_urlsafe(16)
        with self._cursor.await_answer():
            while True:
                pending = self._make_message(
                    message, to, payload, key, max(1.0, min(_WAIT, retries.remaining))
                )
                response = await self._fetch_message(pending, retries, own=own)
                if response is None:
                    key, repeated = token_urlsafe(16), None
                    continue
                repeated = (
                    _is_repeated(response) if repeated is None else repeated
                )  # only the first response knows
                if response.status_code != httpx.codes.ACCEPTED:
                    return self._answer(response, again=repeated)
                found = values.read_object(response.content)
                request = values.read_text(found, "request")
                if not await retries.await_pause():
                    self._cursor.owe(request)
                    raise UnansweredError(key, request, values.read_waiting_messages(found))

    async def events(self, after: str | None = None, *, deltas: bool = False) -> AsyncGenerator[Event, None]:
        """Yield the events until the conversation is closed. A lost stream is resumed.

        An event counts as taken when the program asks for the next one. Others may be delivered again.

        Args:
            after: id of the event to begin after; None for the last taken one.
            deltas: whether pieces of answers that are not committed yet come too, as ``DeltaEvent``.

        Raises ProblemError, such as 401 once the token is revoked, UnreachableError.
        """
        retries = RetryPolicy(self._patience)
        watcher = EventWatcher(
            self._http, f"{self._path}/events", self._cursor, after, retries, deltas=deltas
        )
        with self._cursor.read_stream():
            async with aclosing(watcher.events()) as events:
                async for event in events:
                    yield event

    async def cancel(self, request: str) -> bool:
        """Cancel one request. Returns False if it is finished or unknown.

        Raises ProblemError, UnreachableError.
        """
        return await self._delete(f"{self._path}/requests/{quote(request, safe='')}")

    async def close(self) -> bool:
        """End the conversation. Returns False if it is unknown. Raises ProblemError, UnreachableError."""
        return await self._delete(self._path)

    async def _fetch_message(
        self, pending: PendingRequest, retries: RetryPolicy, *, own: bool
    ) -> httpx.Response | None:
        """Send a message and return the answer; None if the door stays busy, and another key may be used."""
        try:
            return await fetch(self._http, pending, retries)
        except ProblemError as error:
            if own and error.code == _BUSY and error.retry and await retries.await_pause():
                return None
            raise

    def _make_message(
        self, message: Message, to: str | None, payload: str | None, key: str, wait: float
    ) -> PendingRequest:
        named = {"to": to, "payload": payload}
        params = {name: value for name, value in named.items() if value is not None}
        xml = isinstance(message, bytes)
        body = message if isinstance(message, bytes) else json.dumps(message, ensure_ascii=False).encode()
        headers = {
            "content-type": "application/xml" if xml else "application/json",
            "accept": "application/json",
            "idempotency-key": key,
            **({} if wait else {"prefer": "respond-async"}),
            **self._cursor.headers,
        }
        if wait:
            params["wait"] = str(ceil(wait))
        return PendingRequest("POST", f"{self._path}/messages", params, headers, body, wait=wait)

    def _answer(self, response: httpx.Response, *, again: bool) -> ReplyEvent | None:
        found: ReplyEvent | None = None
        if response.status_code == httpx.codes.NO_CONTENT:
            request = response.headers.get(_REQUEST, "")
            place = response.headers.get("agentserver-place", "")
        else:
            found = replace(values.read_reply(values.read_object(response.content)), again=again)
            request, place = found.request, found.place
        self._cursor.add_answer(request, place)
        return found

    async def _delete(self, path: str) -> bool:
        try:
            await fetch(self._http, PendingRequest("DELETE", path), RetryPolicy(self._patience))
        except ProblemError as error:
            if error.status in (httpx.codes.NOT_FOUND, httpx.codes.GONE):
                return False
            raise
        return True


def _is_repeated(response: httpx.Response) -> bool:
    """Tell whether the message was sent before, under the same key."""
    return bool(response.headers.get("agentserver-again") == "true")
