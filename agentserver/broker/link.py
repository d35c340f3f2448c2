"""A connection to a broker over nats-py, whose troubles are errors with a reason.

Owns how the library is set up and what becomes of its troubles. A publish that the broker's permissions refuse is told
by the broker beside the publish, so that its answer never comes: here it ends the wait, and names the permission. What
a broker says that is no NATS ends the connection. Refuses to know what is said over it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from agentserver.broker.address import BrokerError, credentials, trusted
from agentserver.characters.printing import one_line
from agentserver.extras import require

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping

    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.js.client import JetStreamContext

    from agentserver.broker.address import BrokerAddress

__all__ = ["Link", "PermissionDeniedError", "SilenceError", "connected", "short", "troubles"]

START = 5.0
"""Seconds for which a first connection is tried."""
PING = 3
"""Seconds between two looks at whether the broker is there; it is lost after three without an answer."""
BARE = "the broker does not encrypt, and tls:// asks for it"
END = 2.0
"""Seconds that a connection has to close."""
LATE = 1.0
"""Seconds for which the library may be late with its own time-out, before it is not waited for any more."""

ALREADY = 10071
"""The broker's code of an expectation that does not hold."""

FEW = 10005
"""Its code of something to be made for which it knows too few of its nodes to be there: others may be starting."""

logger = logging.getLogger("agentserver.broker")


class PermissionDeniedError(BrokerError):
    """The broker's permissions do not let this user do that; the message names the permission."""


class SilenceError(BrokerError):
    """There is no listener now, or no answer in time. It may be otherwise later."""


class Link:
    """A connection, for as long as ``connected`` keeps it.

    Attributes:
        denied: is done with the text of the first refusal that no ``ask`` has met: a subscription, an acknowledgement.
        over: is done with a reason once the connection is closed for good; it reconnects by itself until then.
        met: whether the broker has taken this user once.
    """

    def __init__(self, client: Client) -> None:
        loop = asyncio.get_running_loop()
        self.client = client
        self.denied: asyncio.Future[str] = loop.create_future()
        self.over: asyncio.Future[str] = loop.create_future()
        self.met = False
        self._asked: dict[str, set[asyncio.Future[str]]] = {}
        self._why = ""

    @property
    def stands(self) -> bool:
        """True while the broker is reached."""
        return bool(self.client.is_connected)

    @property
    def most(self) -> int:
        """Bytes of a message that the broker takes."""
        return int(self.client.max_payload)

    @property
    def stream(self) -> JetStreamContext:
        """The broker's JetStream."""
        return self.client.jetstream(timeout=START)

    async def ask(
        self, subject: str, data: bytes, seconds: float, headers: Mapping[str, str] | None = None
    ) -> Msg:
        """The answer to a message.

        Raises PermissionDeniedError, SilenceError, and BrokerError for a message that is too large and for a
        connection that is closed.
        """
        refused: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._asked.setdefault(subject.lower(), set()).add(refused)
        work = self.client.request(subject, data, timeout=seconds, headers=dict(headers) if headers else None)
        request = asyncio.ensure_future(work)
        try:
            waited: set[asyncio.Future[Any]] = {request, refused, self.denied}
            await asyncio.wait(waited, timeout=seconds + LATE, return_when=asyncio.FIRST_COMPLETED)
            if refused.done() or (self.denied.done() and not request.done()):
                raise PermissionDeniedError(refused.result() if refused.done() else self.denied.result())
            if not request.done():
                raise SilenceError(f"no answer on {subject}")
            with troubles(subject):
                return request.result()
        finally:
            request.cancel()
            refused.cancel()
            waiting = self._asked.get(subject.lower(), set())
            waiting.discard(refused)
            if not waiting:
                self._asked.pop(subject.lower(), None)

    async def put(self, subject: str, seconds: float) -> int:
        """Keep an empty message in a stream, if its subject has none there; its place, 0 where there is one.

        Raises as ``ask``, and BrokerError for what the broker does not keep.
        """
        answer = await self.ask(subject, b"", seconds, {"Nats-Expected-Last-Subject-Sequence": "0"})
        place, code, told = _acknowledged(answer.data)
        if not place and code != ALREADY:
            raise BrokerError(told)
        return place

    async def say(self, subject: str, data: bytes) -> None:
        """Send a message that has no answer. Raises BrokerError."""
        with troubles(subject):
            await self.client.publish(subject, data)

    async def hear(self, subject: str, heard: Callable[[Msg], Awaitable[None]], most: int) -> None:
        """Have messages handled one after the other; what is more than ``most`` bytes behind is dropped.

        Raises BrokerError.
        """
        with troubles(subject):
            await self.client.subscribe(subject, cb=heard, pending_bytes_limit=most)

    async def elsewhere(self) -> None:
        """Connect anew, to another node where there is one. What was asked here is answered no more."""
        with troubles("another node"):
            await self.client.force_reconnect()

    async def trouble(self, error: Exception) -> None:
        """The trouble that the library tells of beside everything else."""
        text = str(error) or type(error).__name__
        self._why = text.removeprefix("nats: ")
        if self.met and _is_unauthorised(text):  # it would be tried for ever
            await self.closed()
        if "permissions violation" not in text:
            logger.debug("broker: %s", text)
            return
        what, _, subject = self._why.partition('"')
        told = f"the broker's permissions refuse this user: {what.removeprefix('permissions violation for ')}"
        told = f'{told.strip()} "{subject}'
        waiting = self._asked.get(subject.split('"')[0]) if "publish" in what else None
        for each in waiting or ():
            if not each.done():
                each.set_result(told)
        if not waiting and not self.denied.done():
            self.denied.set_result(told)

    async def closed(self) -> None:
        """The library has given the connection up."""
        if self.over.done():
            return
        said = self.client.last_error  # the library tells nobody why a broker has ended a connection
        why = self._why or (short(said) if said is not None else "")
        refused = "the broker does not take this user any more: " if _is_unauthorised(why) else ""
        self.over.set_result(f"{refused}{why}" if why else "the connection is closed")


@asynccontextmanager
async def connected(address: BrokerAddress, *, name: str, inbox: str = "") -> AsyncIterator[Link]:
    """A connection that is made again whenever it breaks. Raises BrokerError when it cannot be made now.

    Args:
        address: of the broker.
        name: that the broker's operator sees.
        inbox: the beginning of every subject on which answers come; the library's own when left out.
    """
    require("a broker", "nats")
    from nats.aio.client import Client

    client = Client()
    link = Link(client)
    more = {"name": name, **({"inbox_prefix": inbox} if inbox else {}), **await _manners(client, address)}
    library, brief = logging.getLogger("nats.aio.client"), _Brief()
    library.addFilter(brief)
    try:
        await _connect(link, address, more)
        yield link
    finally:
        library.removeFilter(brief)
        with anyio.CancelScope(shield=True), anyio.move_on_after(END), suppress(Exception):
            await client.close()
        _let_go(client)
        link.denied.cancel()


async def _manners(client: Client, address: BrokerAddress) -> dict[str, Any]:
    """The library's options: how often it tries, and what the files of an address say. Raises BrokerError."""
    manners: dict[str, Any] = {
        "allow_reconnect": True,
        "max_reconnect_attempts": -1,
        "reconnect_time_wait": 1,
        "connect_timeout": 2,
        "ping_interval": PING,
    }
    if address.credentials is not None:
        user, password = await anyio.to_thread.run_sync(credentials, address.credentials)
        manners |= {"user": user, "password": _password(client, address, password)}
    if address.ca is not None:
        manners |= {"tls": await anyio.to_thread.run_sync(trusted, address.ca)}
    return manners


async def _connect(link: Link, address: BrokerAddress, more: dict[str, Any]) -> None:
    """Connect for the first time. Raises BrokerError."""
    client, latest = link.client, [""]
    refused: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def trouble(error: Exception) -> None:
        latest[0] = short(error)
        if _is_unauthorised(latest[0]) and not refused.done():
            refused.set_result(latest[0])
        await link.trouble(error)

    with troubles(address.url):
        work = client.connect(
            address.nodes,
            error_cb=trouble,
            reconnected_cb=partial(_look_again, link, address),
            closed_cb=link.closed,
            **more,
        )
        connecting = asyncio.ensure_future(work)
        try:
            either: set[asyncio.Future[Any]] = {connecting, refused}
            await asyncio.wait(either, timeout=START, return_when=asyncio.FIRST_COMPLETED)
            if refused.done():
                raise PermissionDeniedError(
                    f"the broker at {address.url} does not take this user: {refused.result()}"
                )
            if not connecting.done():
                raise BrokerError(f"no broker at {address.url}: {latest[0] or 'it does not answer'}")
            connecting.result()
            if _bare(client, address):
                raise BrokerError(BARE)
            link.met = True
        finally:
            while not connecting.done():  # the library may lose a cancellation
                connecting.cancel()
                await asyncio.wait({connecting}, timeout=1)
            refused.cancel()


async def _look_again(link: Link, address: BrokerAddress) -> None:
    """Leave a broker that has come again and does not encrypt."""
    if _bare(link.client, address):
        await link.trouble(BrokerError(BARE))
        await link.client.close()


def _is_unauthorised(text: str) -> bool:
    """True for what a broker says to a user that it does not know, or not any more."""
    return "authorization" in text.lower() or "authentication" in text.lower()


def _let_go(client: Client) -> None:
    """Close the socket of a client, which it leaves open where a connection was not made."""
    writer = _writer(client)
    if writer is not None:
        writer.close()


def _writer(client: Client) -> asyncio.StreamWriter | None:
    found: asyncio.StreamWriter | None = getattr(getattr(client, "_transport", None), "_io_writer", None)
    return found


def _password(client: Client, address: BrokerAddress, password: str) -> Callable[[], str]:
    """Gives the password once the connection is what the address says: a broker may leave encryption out."""

    def given() -> str:
        from nats.errors import Error

        if _bare(client, address):
            raise Error(f"nats: authorization is not tried: {BARE}")
        return password

    return given


def _bare(client: Client, address: BrokerAddress) -> bool:
    """True for a connection in the clear where the address asks for another: the library leaves that to the broker."""
    writer = _writer(client)
    return address.encrypted and (writer is None or writer.get_extra_info("ssl_object") is None)


@contextmanager
def troubles(subject: str) -> Iterator[None]:
    """Makes BrokerError of what the library raises.

    What a broker says that has chosen no leader yet, or knows too few of its nodes to be there, is SilenceError: it has
    done nothing, and may later.
    """
    from nats import errors
    from nats.js.errors import NoStreamResponseError, ServiceUnavailableError

    try:
        yield
    except BrokerError:
        raise
    except (errors.NoRespondersError, NoStreamResponseError, ServiceUnavailableError):
        raise SilenceError(f"no listener on {subject}") from None
    except TimeoutError:
        raise SilenceError(f"no answer on {subject}") from None
    except errors.MaxPayloadError:
        raise BrokerError("it is larger than the broker takes (max_payload)") from None
    except (errors.Error, OSError, ValueError, TypeError, LookupError, AttributeError) as error:
        kind = SilenceError if getattr(error, "err_code", None) == FEW else BrokerError
        raise kind(f"{subject}: {short(error)}") from None


def short(error: Exception) -> str:
    """The words of an error, in one line."""
    text = getattr(error, "description", None) or str(error) or type(error).__name__
    text = str(text).removeprefix("nats: ")
    return one_line(" ".join(text.split()))[:200]


def _acknowledged(data: bytes) -> tuple[int, int, str]:
    """Place in the stream, the broker's code of a refusal, and its words; none of them is believed to be there."""
    try:
        told = json.loads(data)
    except (ValueError, RecursionError):
        told = None
    told = told if isinstance(told, dict) else {}
    error = told.get("error")
    error = error if isinstance(error, dict) else {}
    place, code, why = told.get("seq"), error.get("err_code"), error.get("description")
    return (
        place if isinstance(place, int) else 0,
        code if isinstance(code, int) else 0,
        why[:200] if isinstance(why, str) else "the broker answers what is no acknowledgement",
    )


class _Brief(logging.Filter):
    """Makes one line of what the library logs about a broker that is none; the connection is made again by then."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            record.msg, record.args = "the broker sent what is no NATS: %s", (type(error).__name__,)
            record.exc_info = None
        return True
