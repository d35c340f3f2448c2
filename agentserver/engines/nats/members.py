"""The living processes, and the partitions that each is to have.

Owns the rule: each partition falls to the living process of the greatest weight, so that a process that comes or goes
moves its own share of them and no other. A process is taken for dead when it has been silent for so many of our own
beats as the broker gave back to us: while the broker is away none dies. Pure: refuses to know brokers and time.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, NamedTuple

from agentserver.engines.replica.log import PARTITIONS

BEATS: Final = 5
"""Beats in a lease."""


class Beat(NamedTuple):
    """The words of a process about itself.

    Args:
        name: of the process.
        holds: the partitions that it has.
    """

    name: str
    holds: frozenset[int]

    def dump(self) -> bytes:
        """The beat as bytes."""
        return json.dumps(sorted(self.holds)).encode()

    @classmethod
    def load(cls, name: str, data: bytes) -> Beat:
        """The beat of which ``dump`` gave this; one that holds nothing for other bytes."""
        try:
            found = json.loads(data)
        except (ValueError, RecursionError):
            found = []
        holds = found if isinstance(found, list) else []
        return cls(name, frozenset(one for one in holds if type(one) is int and 0 <= one < PARTITIONS))


def weight(name: str, partition: int) -> bytes:
    """The weight of a process for a partition: the greatest has it."""
    return blake2b(f"{name} {partition}".encode("utf-8", "surrogatepass"), digest_size=8).digest()


@dataclass(slots=True)
class Members:
    """The others, as one process knows them.

    Args:
        name: of this process.
    """

    name: str
    beats: int = 0
    _seen: dict[str, tuple[int, frozenset[int]]] = field(default_factory=dict)

    def hear(self, beat: Beat) -> None:
        """A process lives."""
        if beat.name == self.name:
            self.beats += 1
        else:
            self._seen[beat.name] = (self.beats, beat.holds)

    def leave(self, name: str) -> None:
        """A process has said that it is gone."""
        self._seen.pop(name, None)

    def dead(self) -> list[str]:
        """The processes that have been silent for a lease."""
        return [name for name, (since, _) in self._seen.items() if self.beats - since > BEATS]

    def living(self, name: str) -> bool:
        """True for a process that is not known to be gone."""
        return name == self.name or (name in self._seen and self.beats - self._seen[name][0] <= BEATS)

    def change(self, held: frozenset[int]) -> tuple[list[int], list[int]]:
        """The partitions that this process is to claim, and those of its own that it is to let go."""
        for name in self.dead():
            del self._seen[name]
        names = [self.name, *self._seen]
        elsewhere = {number for _, holds in self._seen.values() for number in holds}
        claim, loose = [], []
        for number in range(PARTITIONS):
            mine = max(names, key=lambda name: weight(name, number)) == self.name
            if mine and number not in held and number not in elsewhere:
                claim.append(number)
            elif not mine and number in held:
                loose.append(number)
        return claim, loose
