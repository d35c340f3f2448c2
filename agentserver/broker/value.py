"""One value that a broker keeps for all servers of an organism, changed by one at a time.

Owns how it is kept, and what becomes of the library's troubles. Refuses to know what the value is.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from agentserver.broker.link import FEW, short

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from nats.js import JetStreamContext
    from nats.js.kv import KeyValue


_PATIENCE: Final = (0.5, 0.5, 1.0, 2.0)
"""Seconds for an answer, each time it is asked for: a bucket that is being made has no leader and does not answer."""
_PAUSES: Final = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
"""Seconds after which a value is written again that found no leader of its bucket."""

_GATHERING: Final = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 4.0, 4.0)
"""Seconds after which a bucket is made again for which too few nodes were known to be there: others may be starting."""


class KeptValue(NamedTuple):
    """A value as it was read.

    Args:
        data: the value; b"" when nothing was ever written.
        number: by which a change is refused that was made from an earlier edition; 0 for none, and that of the removal
            for one that somebody has removed.
    """

    data: bytes
    number: int


class BrokerValue:
    """A value of a broker's. It is never empty: an empty message in its place is damage.

    Args:
        stream: the broker's JetStream; its time-out is that of each request.
        bucket: of letters, digits, ``-`` and ``_``; made when there is none.
        key: of the value in it.
        replicas: how many nodes keep it, where the bucket is made.
    """

    def __init__(self, stream: JetStreamContext, bucket: str, key: str, replicas: int) -> None:
        self.bucket = bucket
        self._stream, self._key, self._replicas = stream, key, replicas
        self._values: KeyValue | None = None

    async def read(self) -> KeptValue:
        """The value as it is. Raises OSError."""
        from nats.js.errors import KeyNotFoundError, ServiceUnavailableError

        with _troubles():
            why: Exception = TimeoutError()
            for seconds in _PATIENCE:
                try:
                    entry = await asyncio.wait_for((await self._opened()).get(self._key), seconds)
                    return KeptValue(_written(entry.value), entry.revision or 0)
                except KeyNotFoundError as error:
                    removed = error.entry
                    return KeptValue(b"", (removed.revision if removed is not None else 0) or 0)
                except TimeoutError as error:
                    why = error
                except ServiceUnavailableError as error:  # no node may make a bucket yet
                    why = error
                    await asyncio.sleep(seconds)
            raise why

    async def write(self, data: bytes, after: int) -> bool:
        """Put a value in place of the edition of that number; False when another stands there. Raises OSError.

        False is also the answer of a broker that is still busy with the edition before.
        """
        from nats.js.errors import KeyWrongLastSequenceError

        with _troubles():
            values = await self._opened()
            try:
                await _led(partial(values.update, self._key, data, last=after))
            except KeyWrongLastSequenceError:
                return False
            return True

    async def _opened(self) -> KeyValue:
        from nats.js.errors import BucketNotFoundError, NotFoundError

        if self._values is None:
            try:
                self._values = await self._stream.key_value(self.bucket)
            except (BucketNotFoundError, NotFoundError):
                self._values = await self._made()
        return self._values

    async def _made(self) -> KeyValue:
        from nats.js.errors import BadRequestError

        for pause in (*_GATHERING, None):
            try:
                # Asked of its leader alone: who has revoked a token reads it as revoked.
                return await self._stream.create_key_value(
                    bucket=self.bucket, replicas=self._replicas, direct=False
                )
            except BadRequestError as error:
                if pause is None or error.err_code != FEW:
                    raise
                await asyncio.sleep(pause)
        raise AssertionError


async def _led(work: Callable[[], Awaitable[object]]) -> None:
    """Do something for which a bucket has to have a leader, again where no node says that it is: nothing is done then.

    The broker says that a bucket is made before every node knows who leads it.
    """
    from nats.js.errors import NoStreamResponseError

    for pause in _PAUSES:
        try:
            await work()
        except NoStreamResponseError:
            await asyncio.sleep(pause)
        else:
            return
    await work()


def _written(data: bytes | None) -> bytes:
    """A value as a server has written it. Raises OSError for an empty value, which is damage and no absence of one."""
    if not data:
        raise OSError("the broker: the value is empty, and no server has written it so")
    return data


@contextmanager
def _troubles() -> Iterator[None]:
    """Makes OSError of what the library raises."""
    from nats.errors import Error

    try:
        yield
    except TimeoutError:
        raise OSError("the broker does not answer") from None
    except (Error, ValueError, TypeError, LookupError, AttributeError) as error:
        raise OSError(f"the broker: {short(error)}") from None
