"""The names of an organism and of its listeners as the broker has them: subjects, streams, consumers, users.

Owns the encoding of a name as one token of a subject, and every subject of workers elsewhere. Pure: refuses to know a
connection.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["LONGEST", "Subjects", "word"]

LONGEST = 200
"""Characters of a word: streams and consumers are named by words, and the broker takes names of 255."""
_PLAIN = re.compile(r"[A-Za-z0-9_.-]+")


def word(name: str) -> str:
    """A name as one token of a subject: ``_`` becomes ``__`` and ``.`` becomes ``_-``, so no two names share a word.

    Raises ValueError for a name that the configuration would not take.
    """
    if _PLAIN.fullmatch(name) is None:
        raise ValueError(f"{name!r} is no name: letters, digits and _ - . are")
    return name.replace("_", "__").replace(".", "_-")


@dataclass(frozen=True, slots=True)
class Subjects:
    """The subjects by which a server and its workers elsewhere speak.

    Args:
        organism: its name.
    """

    organism: str

    @property
    def stream(self) -> str:
        """The queue of tickets: a stream of its own, which is no log of anything."""
        return f"AS_WORK_{word(self.organism)}"

    @property
    def tickets(self) -> str:
        """All that the queue holds."""
        return f"as.{word(self.organism)}.work.>"

    def ticket(self, listener: str, server: str, call: str) -> str:
        """Says that a call of a listener waits at a server."""
        return f"{self._begin('work', listener)}.{server}.{call}"

    def of_listener(self, listener: str) -> str:
        """The tickets of one listener."""
        return f"{self._begin('work', listener)}.>"

    def done(self, listener: str, server: str, call: str) -> str:
        """The subject on which a listener's worker speaks to the server about a call."""
        return f"{self._begin('done', listener)}.{server}.{call}"

    def said(self, listener: str) -> str:
        """All that workers of a listener may say."""
        return f"{self._begin('done', listener)}.>"

    def inbox(self, listener: str) -> str:
        """The beginning of every subject on which a worker of a listener hears."""
        return self._begin("inbox", listener)

    def pull(self, listener: str) -> str:
        """Asks the broker for a listener's next ticket."""
        return f"$JS.API.CONSUMER.MSG.NEXT.{self.stream}.{word(listener)}"

    def acks(self, listener: str) -> str:
        """Says of tickets of a listener that they are done with."""
        return f"$JS.ACK.{self.stream}.{word(listener)}.>"

    def _begin(self, what: str, listener: str) -> str:
        return f"as.{word(self.organism)}.{what}.{word(listener)}"
