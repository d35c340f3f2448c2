"""The names that the log of an organism has at a broker: streams, buckets, subjects, headers.

Owns them. Refuses to connect.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from agentserver.broker.words import word
from agentserver.engines.replica.log import PARTITIONS

ID: Final = "Nats-Msg-Id"
LAST: Final = "Nats-Expected-Last-Subject-Sequence"
LAST_OF: Final = "Nats-Expected-Last-Subject-Sequence-Subject"
EPOCH: Final = "Agentserver-Epoch"
OBJECT: Final = "Agentserver-Object"

_PARTITIONS: Final = frozenset(map(str, range(PARTITIONS)))


@dataclass(frozen=True, slots=True)
class LogSubjects:
    """The names of one organism's log.

    Args:
        organism: its name.
    """

    organism: str

    @property
    def stream(self) -> str:
        """The stream of the log."""
        return f"AS_LOG_{word(self.organism)}"

    @property
    def life(self) -> str:
        """The bucket of the living processes and of tokens."""
        return f"AS_LIFE_{word(self.organism)}"

    @property
    def once(self) -> str:
        """The bucket of what is given once."""
        return f"AS_ONCE_{word(self.organism)}"

    @property
    def notes(self) -> str:
        """The bucket of notes beside the log."""
        return f"AS_NOTES_{word(self.organism)}"

    @property
    def marks(self) -> str:
        """The bucket of what runs in each process, which the broker has in its memory."""
        return f"AS_MARKS_{word(self.organism)}"

    @property
    def objects(self) -> str:
        """The bucket of what is too large for a message."""
        return f"AS_KEPT_{word(self.organism)}"

    def log(self, partition: int | str) -> str:
        """The subject of the entries of a partition."""
        return f"as.{word(self.organism)}.log.{partition}"

    def own(self, partition: int | str) -> str:
        """The subject of the claims of a partition."""
        return f"as.{word(self.organism)}.own.{partition}"

    def alive(self, name: str) -> str:
        """The subject on which a process says that it lives."""
        return f"$KV.{self.life}.process.{name}"

    def token(self, name: str) -> str:
        """The subject of a token; names may hold anything."""
        return f"$KV.{self.life}.token.{_digest(name)}"

    def given(self, name: str) -> str:
        """The subject of a value that is given once."""
        return f"$KV.{self.once}.{_digest(name)}"

    def note(self, name: str) -> str:
        """The subject of a note; its name is words with dots between them."""
        return f"$KV.{self.notes}.{name}"

    def mark(self, name: str) -> str:
        """The subject of what runs in a process."""
        return f"$KV.{self.marks}.{name}"

    def place_of(self, subject: str) -> tuple[bool, int] | None:
        """The partition of a subject, with True for one of claims and False for one of entries; None for others."""
        *_, kind, partition = subject.split(".")
        if kind not in {"own", "log"} or partition not in _PARTITIONS:
            return None
        return kind == "own", int(partition)


def _digest(name: str) -> str:
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=20).hexdigest()
