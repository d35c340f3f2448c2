"""The principals of an organism that several servers serve: one value that all of them share.

Owns how it is changed by one at a time, and that each server's file of principals becomes what it is. Refuses to know
where the value is kept.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Final, Protocol

import anyio

from agentserver import bearer
from agentserver.broker.address import BrokerError
from agentserver.broker.link import connected
from agentserver.broker.remedies import DAMAGED, explained, lost, nobody
from agentserver.broker.value import BrokerValue
from agentserver.broker.words import word
from agentserver.gateways.principals import document, file
from agentserver.gateways.principals.document import Enrolled

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence
    from pathlib import Path

    from agentserver.broker.address import BrokerAddress
    from agentserver.broker.link import Link
    from agentserver.broker.value import KeptValue
    from agentserver.gateways.principals.callers import Caller

MOST: Final = 1_000_000
"""Bytes of the value: what one message of a broker holds. About 3,500 principals."""

PERIOD: Final = 1.0
"""Seconds between two looks at the value."""

_TRIES: Final = 20
_LOG: Final = logging.getLogger(__name__)


class SharedValue(Protocol):
    """One value that the servers of an organism share. Every method raises OSError when it cannot be reached."""

    @property
    def bucket(self) -> str:
        """The name under which the broker's operator knows it."""
        ...

    async def read(self) -> KeptValue:
        """The value as it is."""
        ...

    async def write(self, data: bytes, after: int) -> bool:
        """Put a value in place of the edition of that number; False when another edition stands there by now."""
        ...


@asynccontextmanager
async def principals_of(address: BrokerAddress, organism: str) -> AsyncIterator[BrokerValue]:
    """The principals of an organism at a broker. Raises OSError when the broker is not there."""
    async with _linked(address, organism) as (value, _):
        with _explaining(address):
            yield value


@contextmanager
def _explaining(address: BrokerAddress) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OSError(explained(str(error), address)) from error


@asynccontextmanager
async def _linked(address: BrokerAddress, organism: str) -> AsyncIterator[tuple[BrokerValue, Link]]:
    try:
        async with connected(address, name="agentserver principals") as link:
            bucket = f"AS_PRINCIPALS_{word(organism)}"
            yield BrokerValue(link.stream, bucket, "principals", address.replicas), link
    except BrokerError as error:
        raise OSError(explained(str(error), address)) from error


@asynccontextmanager
async def following(address: BrokerAddress, organism: str, path: Path) -> AsyncIterator[None]:
    """Have a file follow the principals of an organism for as long as this lasts.

    Raises OSError at first, and BrokerError, in a group, once the connection is over for good: who is revoked from then
    on would never be known.
    """
    async with _linked(address, organism) as (value, link):
        with _explaining(address):
            if not await _follow(value, path):
                _LOG.warning("%s", nobody(value.bucket))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(mirror, value, path)
            tasks.start_soon(_until_over, link)
            yield
            tasks.cancel_scope.cancel()


async def _until_over(link: Link) -> None:
    why = await asyncio.shield(link.over)
    raise BrokerError(f"the connection by which principals are read is over: {why}")


async def entries(value: SharedValue) -> tuple[Enrolled, ...]:
    """The principals, those that are revoked too, in the order in which they were added.

    Raises ValueError when the value is illegible, OSError.
    """
    return _entries((await value.read()).data)


async def add(value: SharedValue, caller: Caller) -> str:
    """Add a principal; gives its token, which is kept nowhere. One of its name that is revoked is replaced.

    Raises KnownError, ValueError when the value is illegible or full or nobody can bear the name, OSError.
    """
    token = bearer.fresh()
    new = Enrolled(caller, bearer.digest(token), time.time())
    await _change(value, lambda known: document.added(known, new))
    return token


async def revoke(value: SharedValue, name: str) -> None:
    """Let a principal's token count no more. It stays on the list.

    Raises LookupError when none of this name has a token, ValueError when the value is illegible, OSError.
    """
    now = time.time()
    await _change(value, lambda known: document.revoked(known, name, now))


async def begin(value: SharedValue, data: bytes) -> None:
    """Make a file of principals the first edition; nothing is done where it is that already.

    Raises ValueError when it is empty or illegible or there is another one, OSError.
    """
    if not data:
        raise ValueError("there are no principals in it")
    try:
        document.read(data)
    except ValueError as error:
        raise ValueError(f"the file of principals: {error}") from None
    if len(data) > MOST:
        raise ValueError(f"the principals take more than {MOST} bytes, which is what servers can share")
    before = await value.read()
    fresh = not before.data and await value.write(data, before.number)
    if not fresh and (await value.read()).data != data:
        raise ValueError("the cluster has principals already")


async def mirror(value: SharedValue, path: Path, period: float = PERIOD) -> None:
    """Make a file of principals what the value is, every ``period`` seconds; never ends.

    While the value cannot be read the file stays as it is. Where nothing is written the file goes aside: nobody is
    known by what the broker does not have, until a person puts it back (``begin``).
    """
    fault = ""
    while True:
        try:
            await _follow(value, path)
            fault = ""
        except OSError as error:
            if fault != str(error):
                _LOG.warning("who was revoked lately is not known: %s", error)
            fault = str(error)
        await anyio.sleep(period)


async def _follow(value: SharedValue, path: Path) -> bool:
    """Make the file what the value is. False where nothing is written and no server has said so."""
    edition = await value.read()
    aside = await anyio.to_thread.run_sync(_mirror, path, edition.data)
    if aside is not None:
        _LOG.error("%s", lost(value.bucket, aside))
    return bool(edition.data) or aside is not None


def _mirror(path: Path, data: bytes) -> Path | None:
    """Make the file what the value is; gives where the last edition has gone of one that is removed or damaged."""
    with file.changing(path):
        before, aside = _before(path), None
        if data and before == data:
            return None
        if _legible(before) and not _legible(data):
            aside = path.with_name(f"{path.name}.lost-{hashlib.sha256(before).hexdigest()[:8]}")
            path.replace(aside)
        if data:
            file.replace(path, data)
        else:
            path.unlink(missing_ok=True)
        return aside


def _before(path: Path) -> bytes:
    """The bytes of the file; empty where there is none, or one that others may write."""
    try:
        return file.read(path).data
    except file.UnusableError as error:
        _LOG.warning("%s: it is replaced by what the cluster keeps", error)
        return b""


def _legible(data: bytes) -> bool:
    """True for an edition that a server has written."""
    try:
        document.read(data)
    except ValueError:
        return False
    return True


async def _change(value: SharedValue, change: Callable[[Sequence[Enrolled]], tuple[Enrolled, ...]]) -> None:
    for _ in range(_TRIES):
        edition = await value.read()
        data = document.write(change(_entries(edition.data)))
        if len(data) > MOST:
            raise ValueError(f"the principals take more than {MOST} bytes, which is what servers can share")
        if await value.write(data, edition.number):
            return
    raise OSError(f"others changed the principals {_TRIES} times meanwhile; try again")


def _entries(data: bytes) -> tuple[Enrolled, ...]:
    try:
        return document.read(data) if data else ()
    except ValueError as error:
        raise ValueError(f"the principals of the cluster: {error} ({DAMAGED})") from None
