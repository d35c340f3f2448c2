"""Announces messages that wait for an approval, by commands and webhooks (``notify:``).

A notice has no part of the message: the page that it links to asks for an identity first.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import ssl
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from agentserver.payload.names import local
from agentserver.ports.hooks import sign_standard
from agentserver.supervision import EndEffect, start_errand

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from agentserver.core.guard import Rules
    from agentserver.core.state.approvals import Approval
    from agentserver.core.state.conversation import Conversation
    from agentserver.ports.notices import Notifier

logger = logging.getLogger("agentserver.notify")

PAUSE: Final = 1.0
"""Seconds between two looks at the waiting messages."""

TIMEOUT: Final = 10.0
"""Seconds that a command or a webhook has for one notice."""

MOST: Final = 50
"""Notices that are sent between two looks."""

AT_ONCE: Final = 8
"""Webhooks that are called concurrently."""

SOONEST, LATEST = 1.0, 300.0
"""Seconds until the second attempt, and most seconds between two. They double with each failure."""

ENVIRONMENT: Final = ("PATH", "HOME", "LANG", "TZ")
"""Environment variables of each command."""

_GOOD: Final = range(200, 300)


class NoticeHost(Protocol):
    """Needs of the notices from a server."""

    @property
    def rules(self) -> Rules:
        """The rules of its organism."""

    def held_approvals(self) -> Sequence[Approval]:
        """List the waiting messages of the conversations that this server holds, oldest first."""

    def conversation(self, conversation: str) -> Conversation | None:
        """Return the present state of a conversation; None if it has ended."""


class UnsentNoticeError(Exception):
    """A notice was not taken. The text is the reason, without an address."""


class Notice(NamedTuple):
    """Announcement of one message by one notifier.

    Args:
        notifier: its way.
        approval: the message that waits.
        until: when it is refused, in seconds since the epoch.
    """

    notifier: Notifier
    approval: Approval
    until: float

    @property
    def id(self) -> str:
        """Id that is the same for each attempt, at each server and after a restart."""
        return f"msg_{sha256(f'{self.notifier.name} {self.approval.id}'.encode()).hexdigest()[:32]}"


@dataclass(slots=True)
class _Attempts:
    """Attempts of a notice: the failures, and when the next one is due on the steady clock; infinite once sent."""

    failed: int = 0
    due: float = 0.0


@dataclass(slots=True)
class NoticeBook:
    """Notices that were sent or failed, as long as their messages wait. Pure: time is an argument."""

    _known: dict[tuple[str, str], _Attempts] = field(default_factory=dict)

    def list_due(
        self,
        notifiers: Iterable[Notifier],
        waiting: Sequence[tuple[Approval, float]],
        now: float,
        steady: float,
    ) -> Iterator[Notice]:
        """Iterate over the notices to send; forget those whose messages wait no longer.

        Args:
            notifiers: their ways.
            waiting: messages, each with the time at which it is refused.
            now: seconds since the epoch.
            steady: seconds of a clock that cannot be set.
        """
        notices = [
            Notice(notifier, approval, until)
            for approval, until in waiting
            for notifier in notifiers
            if (not notifier.listeners or approval.delivery.to in notifier.listeners)
            and approval.at + notifier.after <= now < until
        ]
        before = self._known
        self._known = {_make_key(each): before.get(_make_key(each)) or _Attempts() for each in notices}
        return (each for each in notices if self._known[_make_key(each)].due <= steady)

    def mark_sent(self, notice: Notice) -> None:
        """Note that a notice was taken."""
        self._known.setdefault(_make_key(notice), _Attempts()).due = float("inf")

    def mark_failed(self, notice: Notice, steady: float) -> int:
        """Note a failure, and when to try again. Returns the number of failures."""
        known = self._known.setdefault(_make_key(notice), _Attempts())
        known.due = steady + min(SOONEST * 2.0 ** min(known.failed, 20), LATEST)
        known.failed += 1
        return known.failed


def _make_key(notice: Notice) -> tuple[str, str]:
    return notice.notifier.name, notice.approval.id


def describe(notice: Notice, organism: str, principal: str, approvers: str, door: str) -> dict[str, Any]:
    """Describe what waits, for which approvers, until when, and where to decide. Has no value of the message."""
    approval = notice.approval
    delivery = approval.delivery
    return {
        "type": "approval.waiting",
        "timestamp": _format_iso(approval.at),
        "data": {
            "notifier": notice.notifier.name,
            "organism": organism,
            "approval": approval.id,
            "conversation": delivery.conversation,
            "principal": principal,
            "from": delivery.sender,
            "to": delivery.to,
            "payload": local(delivery.root),
            "approvers": approvers,
            "asked": _format_iso(approval.at),
            "until": _format_iso(notice.until),
            "page": f"{door}/#/approvals/{approval.id}" if door else None,
        },
    }


def _format_iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def sign(key: bytes, notice_id: str, at: int, body: bytes) -> dict[str, str]:
    """Make the headers of Standard Webhooks 1.0 (https://www.standardwebhooks.com)."""
    return {
        "webhook-id": notice_id,
        "webhook-timestamp": str(at),
        "webhook-signature": f"v1,{sign_standard(key, notice_id, str(at), body)}",
    }


def post(url: str, headers: Mapping[str, str], body: bytes) -> None:
    """Post a notice. Follows no redirect. Raises UnsentNoticeError."""
    parts = urlsplit(url)
    connect = (
        partial(HTTPSConnection, context=ssl.create_default_context())
        if parts.scheme == "https"
        else HTTPConnection
    )
    connection = connect(parts.hostname or "", parts.port, timeout=TIMEOUT)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection.request("POST", path, body, {**headers, "content-type": "application/json"})
        status = connection.getresponse().status
    except (OSError, HTTPException, ValueError) as error:
        raise UnsentNoticeError(type(error).__name__) from None
    finally:
        connection.close()
    if status not in _GOOD:
        raise UnsentNoticeError(f"it answered {status}")


async def run_command(command: Sequence[str], env: Mapping[str, str], directory: Path, body: bytes) -> None:
    """Start a command and pass it a notice. Its process group ends with it. Raises UnsentNoticeError."""
    try:
        process = await anyio.open_process(
            list(command),
            env=dict(env),
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise UnsentNoticeError(type(error).__name__) from None
    try:
        if process.stdin is not None:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # it need not read
                await process.stdin.send(body)
            await process.stdin.aclose()
        status = await process.wait()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with anyio.CancelScope(shield=True), anyio.move_on_after(TIMEOUT):
            await process.aclose()
    if status:
        raise UnsentNoticeError(f"it ended with status {status}")


@dataclass
class NoticeRunner:
    """Task that announces waiting messages.

    Args:
        host: has them.
        notifiers: lists the notifiers, which a reload may change.
        name: of the organism.
        directory: of its project.
        door: URL of its door; empty without one.
        clock: seconds since the epoch.
        steady: seconds of a clock that cannot be set.
        pause: seconds between two looks.
    """

    host: NoticeHost
    notifiers: Callable[[], Sequence[Notifier]]
    name: str
    directory: Path
    door: str = ""
    clock: Callable[[], float] = time.time
    steady: Callable[[], float] = time.monotonic
    pause: float = PAUSE
    _book: NoticeBook = field(default_factory=NoticeBook)
    _threads: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(AT_ONCE))

    async def run(self) -> None:
        """Look at the waiting messages until cancelled."""
        while True:
            await self.look()
            await anyio.sleep(self.pause)

    async def look(self) -> None:
        """Send the notices that are due."""
        within = self.host.rules.blueprint.find_approval_time
        waiting = [(each, each.at + within(each.delivery.to)) for each in self.host.held_approvals()]
        due = self._book.list_due(self.notifiers(), waiting, self.clock(), self.steady())
        async with anyio.create_task_group() as tasks:
            for _, notice in zip(range(MOST), due, strict=False):
                start_errand(tasks, "announces an approval", EndEffect.OWNER, partial(self._announce, notice))

    async def _announce(self, notice: Notice) -> None:
        """Send a notice once. A failure is logged the first time, and tried again later."""
        try:
            with anyio.fail_after(TIMEOUT):
                await self._send(notice)
        except (UnsentNoticeError, TimeoutError) as error:
            reason = str(error) or "it took too long"
            if self._book.mark_failed(notice, self.steady()) == 1:
                message = "the approval %s is not announced by %s yet: %s"
                logger.warning(message, notice.approval.id, notice.notifier.name, reason)
        else:
            self._book.mark_sent(notice)

    async def _send(self, notice: Notice) -> None:
        notifier, delivery = notice.notifier, notice.approval.delivery
        conversation = self.host.conversation(delivery.conversation)
        principal = "" if conversation is None else conversation.principal
        approvers = "others" if self.host.rules.blueprint.others_approve(delivery.to) else "anyone"
        body = json.dumps(describe(notice, self.name, principal, approvers, self.door)).encode()
        if notifier.command:
            names = (*ENVIRONMENT, *notifier.env)
            env = {name: os.environ[name] for name in names if name in os.environ}
            await run_command(notifier.command, env, self.directory, body)
            return
        headers = sign(notifier.key, notice.id, int(self.clock()), body)
        call = partial(post, notifier.webhook, headers, body)
        await anyio.to_thread.run_sync(call, limiter=self._threads, abandon_on_cancel=True)
