"""The stream of server-sent events for one browser, built from committed records."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import anyio

from agentserver.core.records.audit import Event
from agentserver.gateways.hosts import ServerView, list_approvals
from agentserver.gateways.http.streams import wait_for_disconnect
from agentserver.gateways.live import views
from agentserver.payload.names import local
from agentserver.ports import NotStoredError, RecordGap
from agentserver.supervision import EndEffect, start_errand
from agentserver.trace.redact import redact_records

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from starlette.types import Receive, Scope, Send

    from agentserver.core.records.audit import AuditRecord
    from agentserver.gateways.principals import Caller
    from agentserver.gateways.principals.sessions import SessionTokens
    from agentserver.history.backtest import PolicyTrial
    from agentserver.ports.ingress import ConversationFound
    from agentserver.ports.schedules import Schedule
    from agentserver.trace.redact import Redaction

T = TypeVar("T")


class LiveHost(ServerView, Protocol):
    """The server, as far as it is watched and decided about here."""

    @property
    def schedules(self) -> Sequence[Schedule]:
        """Messages that it sends at set times."""

    @property
    def organism_path(self) -> str:
        """Path of the organism's file from its project, for saved tests."""

    async def find_conversation(self, principal: str | None, conversation: str) -> ConversationFound:
        """Return the owner of a conversation. Raises LookupError if it is unknown or another owner's."""

    def records(self, principal: str | None = None) -> AsyncIterator[tuple[AuditRecord, ...] | RecordGap]:
        """Iterate over the records of each committed step, until the server stops, with a count of missed ones."""

    async def cancel(self, principal: str | None, conversation: str, request: str, *, by: str = "") -> bool:
        """Cancel one request. Returns False if it is settled or unknown. Raises LookupError."""

    async def prepare_trial(self, policy: str, mode: str = "") -> PolicyTrial:
        """Prepare the trial of a provenance policy. Raises ValueError with a line for each mistake."""

    async def find_policy_text(self) -> str:
        """Return the policy in force as the text of a policy file; empty without one."""

    async def requeue(self, delivery: str, by: str) -> str:
        """Queue a dead letter again; gives the conversation in which it is. Raises LookupError."""

    async def discard(self, delivery: str, by: str) -> None:
        """Take a dead letter off the list, in the name of an operator. Raises LookupError."""


PERIOD = 0.1
"""Seconds between two events of a stream."""

QUIET = 10.0
"""Seconds after which a stream without news says that it is there."""

MOST = 200
"""Messages that one event tells; further ones are counted by sender, receiver and kind."""

TOLD = frozenset(Event) - {Event.HANDLED, Event.ATTEMPTED, Event.RESERVED, Event.SETTLED}
"""Events that are sent to a page one by one."""

HEADERS = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
    (b"x-content-type-options", b"nosniff"),
)


class FeedBatch:
    """The news since the last telling, within bounds.

    Args:
        host: the server.
        redaction: what the reader may not see.
        caller: the reader.
    """

    def __init__(self, host: LiveHost, redaction: Redaction, caller: Caller) -> None:
        self._host = host
        self._redaction = redaction
        self._caller = caller
        self._hops: list[dict[str, Any]] = []
        self._counted: Counter[tuple[str, str, str]] = Counter()
        self._missed = 0
        self._state: dict[str, Any] = {}

    def add(self, records: tuple[AuditRecord, ...]) -> None:
        """Take in the records of one step."""
        shown = [record for record in records if record.event in TOLD]
        room = max(0, MOST - len(self._hops))
        bare = [record._replace(message=b"") for record in shown[:room]]  # what a message says is no news
        self._hops += map(self._describe_hop, redact_records(bare, self._redaction))
        known = self._host.rules.blueprint.listeners
        for record in shown[room:]:
            to = record.to if record.to in known else ""
            sender = record.sender if record.sender in known else ""
            self._counted[(sender, to, str(record.event))] += 1

    def miss(self, steps: int) -> None:
        """Take in that so many steps were missed."""
        self._missed += steps

    def _describe_hop(self, record: AuditRecord) -> dict[str, Any]:
        """Describe a message; a viewer sees only names of the organism, not the sender's text."""
        fields = views.describe_hop(record)
        if self._caller.redacted:
            blueprint = self._host.rules.blueprint
            root_names = {local(root) for roots in blueprint.roots.values() for root in roots}
            fields["why"] = ""
            if record.event is Event.REFUSED:
                fields["to"] = fields["to"] if record.to in blueprint.listeners else ""
                fields["root"] = fields["root"] if record.root in root_names else ""
        return fields

    def take(self) -> dict[str, Any] | None:
        """Take the pending news; None without any."""
        queues = self._host.queues() if self._caller.sees is None else {}
        state = {"queues": queues, "waiting": len(list_approvals(self._host, self._caller))}
        if not (self._hops or self._counted or self._missed) and state == self._state:
            return None
        self._state = state
        news = {
            **state,
            "hops": self._hops,
            "counted": [[*key, count] for key, count in self._counted.items()],
            "missed": self._missed,
        }
        self._hops, self._counted, self._missed = [], Counter(), 0
        return news


class Feed:
    """The response to a browser that opens the stream: an ASGI application.

    Args:
        host: the server.
        tokens: reports when the caller's token is revoked; the stream ends then.
        caller: the reader.
        redaction: hides what the caller may not see.
        is_valid: checks whether the session still exists; the stream ends with it.
        over: called at the end.
    """

    def __init__(
        self,
        host: LiveHost,
        tokens: SessionTokens,
        caller: Caller,
        redaction: Redaction,
        is_valid: Callable[[], Awaitable[bool]],
        over: Callable[[], None],
    ) -> None:
        self._host = host
        self._tokens = tokens
        self._caller = caller
        self._news = FeedBatch(host, redaction, caller)
        self._is_valid, self._over = is_valid, over

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI
        """Stream until the browser leaves, the server stops, or the session or the token ends."""
        try:
            await send({"type": "http.response.start", "status": 200, "headers": list(HEADERS)})
            async with anyio.create_task_group() as tasks:

                async def end_with(wait: Callable[[], Any]) -> None:
                    await wait()
                    tasks.cancel_scope.cancel()

                for work in (
                    self._read,
                    self._watch_revocation,
                    lambda: wait_for_disconnect(receive),
                    lambda: self._tell(send),
                ):
                    start_errand(tasks, "feeds a live view", EndEffect.OWNER, partial(end_with, work))
            with suppress(OSError):  # the browser is gone
                await send({"type": "http.response.body", "body": b"event: ended\ndata: {}\n\n"})
        finally:
            self._over()

    async def _read(self) -> None:
        with suppress(NotStoredError):  # the server stops
            async for step in self._host.records(self._caller.sees):
                if isinstance(step, RecordGap):
                    self._news.miss(step.missed)
                else:
                    self._news.add(step)

    async def _watch_revocation(self) -> None:
        await self._tokens.wait_revoked(self._caller)

    async def _tell(self, send: Send) -> None:
        quiet = 0.0
        with suppress(OSError):  # the browser is gone
            while await self._is_valid():
                news = self._news.take()
                if news is not None or quiet >= QUIET:
                    text = ": here" if news is None else f"data: {json.dumps(news)}"
                    body = f"{text}\n\n".encode()
                    await send({"type": "http.response.body", "body": body, "more_body": True})
                    quiet = 0.0
                quiet += PERIOD
                await anyio.sleep(PERIOD)
