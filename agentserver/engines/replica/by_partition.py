"""Readings of a replica that concern one partition, made for all partitions at once.

Owns that a process which takes up many partitions does not read the whole replica for each. Refuses to know what it
reads.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Generic, TypeVar

from agentserver.engines.replica.log import PARTITIONS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

T = TypeVar("T")


def partition_of(key: str) -> int:
    """The partition of a conversation, or of a name: the same in every process and version."""
    return int.from_bytes(blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest()) % PARTITIONS


class PartitionedReading(Generic[T]):
    """One reading, of which each partition's part is given out once; then, and after a change in it, it is read again.

    Args:
        read: gives what there is, of all partitions.
        conversation: gives the id of the conversation that a thing is of.
    """

    def __init__(self, read: Callable[[], Awaitable[Iterable[T]]], conversation: Callable[[T], str]) -> None:
        self._read, self._conversation = read, conversation
        self._found: dict[int, list[T]] = {}

    async def take(self, partition: int) -> list[T]:
        """Everything of a partition. Raises what ``read`` raises."""
        if partition not in self._found:
            found: dict[int, list[T]] = {number: [] for number in range(PARTITIONS)}
            for one in await self._read():
                found[partition_of(self._conversation(one))].append(one)
            self._found = found
        return self._found.pop(partition)

    def changed(self, partition: int) -> None:
        """Something has changed in a partition."""
        self._found.pop(partition, None)
