"""The stream of a log at a broker: made, appended to, read.

Owns what an answer of the broker means, and that an entry is told of in order and without a gap. An append whose answer
is not known is sent again under the same id. Refuses to know what an entry says and who has a partition.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import secrets
from base64 import b64decode
from contextlib import contextmanager, suppress
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NoReturn

from agentserver.broker.address import BrokerError
from agentserver.broker.link import ALREADY, troubles
from agentserver.engines.nats.answers import (
    ANSWER,
    FORGOTTEN,
    OversizeError,
    answer_of,
    last_of,
    refusal,
    store,
)
from agentserver.engines.nats.subjects import EPOCH, ID, LAST, LAST_OF, OBJECT
from agentserver.engines.replica.log import BEHIND, BrokenLogError, LogEntry
from agentserver.ports import FencedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping

    from nats.aio.msg import Msg

    from agentserver.broker.link import Link
from agentserver.engines.nats.subjects import LogSubjects

logger = logging.getLogger("agentserver.broker")

FINAL: Final = frozenset({"10002", "10027", "10028", "10039", "10047", "10074", "10076"})
"""Its errors for what it will not do later either: beyond a limit, without JetStream, with more nodes than it has."""

ABSENT: Final = 404
"""Its code for what it does not have."""

AGAIN: Final = 0.05
"""Seconds between two attempts."""

AT_ONCE: Final = 256
"""Entries that are asked for at once."""

LOOK: Final = 100
"""Attempts that found a claim of ours missing, after which it is looked for: longer than a leader is behind."""

SILENCE: Final = 5.0
"""Seconds without a sign of the broker after which a reader begins anew; a sign comes twice in that time."""

LOST: Final = 20
"""Readers in a row that may be given what comes after a place, and not what is at it."""

NOTHING: Final = b"\0"
"""The body of what is no entry and no claim: every replica leaves it out."""

_EPOCH: Final = re.compile(r"[0-9]{1,18}")

HEADERS: Final = 1024
"""Bytes of a message that are left for its headers."""


READER: Final = MappingProxyType(
    {
        "deliver_policy": "by_start_sequence",
        "ack_policy": "none",
        "replay_policy": "instant",
        "inactive_threshold": 30_000_000_000,
        "num_replicas": 1,
        "mem_storage": True,
    }
)
"""The settings of a reader at the broker, which forgets it when it is silent for half a minute."""


class AbsentError(BrokerError):
    """The broker does not have what it was asked for."""


class FinalError(BrokerError):
    """The broker does not do it, however often it is asked."""


class LogStream:
    """The stream of one log.

    Args:
        link: to the broker.
        subjects: of the log.
        large: gives the content of what was too large for a message, by its name.
    """

    def __init__(self, link: Link, subjects: LogSubjects, large: Callable[[str], Awaitable[bytes]]) -> None:
        self._link = link
        self._subjects = subjects
        self._large = large
        self._lost = 0, 0
        self._broken = ""
        self.trouble = ""

    async def append(self, partition: int, epoch: int | None, data: bytes, headers: dict[str, str]) -> int:
        """Append an entry, for as long as it takes to know what became of it.

        Raises FencedError, OversizeError, UnsettledError and EngineError.

        After a silence no error says that nothing is kept: it may be about this attempt, while the one before is there.
        """
        subject = self._subjects.log(partition)
        if epoch is not None:
            own = self._subjects.own(partition)
            headers = {**headers, LAST: str(epoch), LAST_OF: own, EPOCH: str(epoch)}
        unknown, behind, refused = False, 0, 0
        while True:
            if len(data) > self._link.most - HEADERS:
                raise OversizeError(unknown=unknown)
            answer = await store(self._link, subject, data, headers)
            if answer is None:
                unknown, self.trouble = True, "the broker does not answer"
            elif not answer.error:
                self.trouble = ""
                return answer.place
            elif answer.error == ALREADY:
                if epoch is None or last_of(answer.words) >= epoch:
                    raise FencedError("another process has claimed it")
                # else a new leader, which has not come to our claim yet: no later one would tell those who wait
                behind += 1
                if behind % LOOK == 0:
                    await self._look_for_claim(epoch)
            else:
                error, refused = refusal(answer, refused, unknown=unknown), refused + 1
                if error is not None:
                    raise error
            await asyncio.sleep(AGAIN)

    async def _look_for_claim(self, epoch: int) -> None:
        """Have a log followed no more that has come past a claim and has it no more: it was emptied."""
        with suppress(BrokerError):
            if await self.last() >= epoch and not await self.id_at(epoch):
                self._broken = (
                    f"the log has nothing at {epoch} any more, where a claim was: it has lost entries"
                )

    async def claim(self, partition: int, name: str) -> int | None:
        """Claim a partition; gives the epoch, or None when it is not known whether it was claimed."""
        answer = await store(self._link, self._subjects.own(partition), name.encode(), {})
        return None if answer is None or answer.error else answer.place

    async def last(self, without: int | None = None) -> int:
        """The place of the last entry, or ``without`` of a log that is not there any more. Raises BrokerError."""
        try:
            found = await api(self._link, f"STREAM.INFO.{self._subjects.stream}", {})
            return int(found["state"]["last_seq"])
        except (LookupError, TypeError, ValueError, OverflowError):
            raise BrokerError("the broker does not say where the log ends") from None
        except AbsentError:
            if without is None:
                raise
            return without

    async def forgotten(self) -> int:
        """The place before the first kept entry of a log that has gaps; zero for a whole one. Raises BrokerError."""
        try:
            state = (await api(self._link, f"STREAM.INFO.{self._subjects.stream}", {}))["state"]
            if state["first_seq"] <= 1 and not state.get("num_deleted"):
                return 0
            request = {"seq": 1, "next_by_subj": self._subjects.log("*")}
            found = await api(self._link, f"STREAM.MSG.GET.{self._subjects.stream}", request)
            return int(found["message"]["seq"]) - 1
        except AbsentError:
            return await self.last()
        except (LookupError, TypeError, ValueError, OverflowError):
            raise BrokerError("the broker does not say where the log begins") from None

    async def follow(self, after: int) -> AsyncIterator[LogEntry]:
        """The entries after a place, for ever. Raises BrokenLogError at a gap, and for a broker that has us no more."""
        known = ""
        while True:
            if self._link.over.done():
                raise BrokenLogError(f"the connection to the broker is over: {self._link.over.result()}")
            if self._link.denied.done():  # no answer would be believed any more
                raise BrokenLogError(self._link.denied.result())
            if self._broken:
                raise BrokenLogError(self._broken)
            with _anew():
                await self._goes_on(after, known)
                async for entry in self._read(after):
                    after, known = entry.place, entry.id
                    yield entry
            await asyncio.sleep(AGAIN)

    async def _goes_on(self, after: int, known: str) -> None:
        """Look that the log has what was read of it. Raises BrokenLogError when it does not, and BrokerError."""
        for pause in (*BEHIND, None):
            last = after and await self.last(0)
            if last >= after:
                break
            if pause is None:
                raise BrokenLogError(
                    f"the log ends at {last}, and was read up to {after}: it has lost entries"
                )
            await asyncio.sleep(pause)
        there = known and await self.id_at(after)
        if there and there != known:
            raise BrokenLogError(
                f"the log has another entry at {after} than was read there: it has lost entries"
            )

    async def id_at(self, place: int) -> str:
        """The id of the entry at a place, or the name in a claim; empty when it is gone. Raises BrokerError."""
        try:
            found = await api(self._link, f"STREAM.MSG.GET.{self._subjects.stream}", {"seq": place})
            message = found["message"]
            claim, _ = self._subjects.place_of(message["subject"]) or (False, 0)
            said = b64decode(message.get("data" if claim else "hdrs") or "").decode("utf-8", "replace")
        except AbsentError:
            return ""
        except (LookupError, TypeError, ValueError, AttributeError):
            raise BrokerError(f"the broker does not say what is at {place}") from None
        if claim:
            return said
        lines = (line.partition(":") for line in said.splitlines())
        return next((value.strip() for name, _, value in lines if name == ID), "")

    async def _read(self, after: int) -> AsyncIterator[LogEntry]:
        """Some of the entries after a place: as many as one reader at the broker gives."""
        stream, client, name = self._subjects.stream, self._link.client, f"r{secrets.token_hex(8)}"
        request = {"stream_name": stream, "config": {"name": name, "opt_start_seq": after + 1, **READER}}
        await api(self._link, f"CONSUMER.CREATE.{stream}.{name}", request)
        came: asyncio.Queue[Msg | None] = asyncio.Queue()
        subscription = await client.subscribe(client.new_inbox(), cb=came.put)
        over = partial(_put, came)
        self._link.over.add_done_callback(over)
        pull = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{name}"
        ask = json.dumps(
            {"batch": AT_ONCE, "expires": 30_000_000_000, "idle_heartbeat": 2_000_000_000}
        ).encode()
        try:
            await client.publish(pull, ask, reply=subscription.subject)
            left = AT_ONCE
            while True:
                message = await _next(came)
                status = (message.headers or {}).get("Status")
                if self._broken:
                    raise BrokerError(self._broken)
                if status == "100":
                    continue
                if status is not None and status != "408":
                    raise BrokerError(f"the reader is gone: {status}")
                if status is None:
                    yield await self._entry(message, after)
                    after = message.metadata.sequence.stream
                    left -= 1
                if status == "408" or left <= AT_ONCE // 2:
                    await client.publish(pull, ask, reply=subscription.subject)
                    left += AT_ONCE
        finally:
            self._link.over.remove_done_callback(over)
            if client.is_connected:
                await subscription.unsubscribe()

    async def _entry(self, message: Msg, after: int) -> LogEntry:
        """An entry. An empty message is none, and is no claim for that: a claim is known by its subject."""
        place, at = message.metadata.sequence.stream, message.metadata.timestamp.timestamp()
        if place != after + 1:
            await self._miss(after + 1, place)
        headers = message.headers or {}
        found = self._subjects.place_of(message.subject)
        if found is None:
            return LogEntry(place, 0, None, NOTHING, "", at)
        claim, partition = found
        if claim:
            return LogEntry(place, partition, place, b"", message.data.decode("utf-8", "replace"), at)
        epoch, key, large = headers.get(EPOCH, ""), headers.get(ID, ""), headers.get(OBJECT)
        under = int(epoch) if _EPOCH.fullmatch(epoch) else None
        body = message.data if large is None else await self._large(large)
        return LogEntry(place, partition, under, body or NOTHING, key, at)

    async def _miss(self, place: int, instead: int) -> NoReturn:
        """Say what became of an entry that was not given: lost on its way (BrokerError), or gone (BrokenLogError).

        The broker gives an entry once to a reader: what is on its way when nodes lose each other is not given again.
        """
        if instead < place:
            raise BrokerError(f"the broker gives {instead} again")
        subject = f"$JS.API.STREAM.MSG.GET.{self._subjects.stream}"
        said = await self._link.ask(subject, json.dumps({"seq": place}).encode(), ANSWER)
        answer = answer_of(said.data)  # None of one that is there
        if answer is not None and answer.error == FORGOTTEN:
            raise BrokenLogError(
                f"the log goes on at {instead} and not at {place}: what is between was forgotten"
            )
        before, times = self._lost
        self._lost = place, times + 1 if before == place else 1
        if self._lost[1] >= LOST:
            raise BrokenLogError(f"the broker goes on at {instead} and not at {place}, which it has")
        raise BrokerError(f"the entry at {place} was lost on its way")


def _put(came: asyncio.Queue[Msg | None], _: asyncio.Future[str]) -> None:
    came.put_nowait(None)


async def _next(came: asyncio.Queue[Msg | None]) -> Msg:
    """The next that came. Raises BrokerError. The library's own waiting would lose a cancellation now and then."""
    try:
        async with asyncio.timeout(SILENCE):
            message = await came.get()
    except TimeoutError:
        raise BrokerError("the broker is silent") from None
    if message is None:
        raise BrokerError("the connection is over")
    return message


@contextmanager
def _anew() -> Iterator[None]:
    """Have a reader end that the broker, or the library, is in trouble with: another goes on where it was."""
    try:
        with troubles("the log"):
            yield
    except BrokerError as error:
        logger.debug("the log is read anew: %s", error)


async def api(link: Link, what: str, request: Mapping[str, Any], seconds: float = ANSWER) -> Any:
    """Ask the broker's JetStream for something. Raises BrokerError, AbsentError for what it does not have."""
    said = (await link.ask(f"$JS.API.{what}", json.dumps(request).encode(), seconds)).data
    try:
        found = json.loads(said)
        error = found.get("error")
    except (ValueError, AttributeError, RecursionError):
        raise BrokerError(f"{what}: the broker's answer cannot be read") from None
    if error is not None:
        told = error if isinstance(error, dict) else {"description": error}
        kind = FinalError if str(told.get("err_code")) in FINAL else BrokerError
        raise (AbsentError if told.get("code") == ABSENT else kind)(f"{what}: {told.get('description')}")
    return found
