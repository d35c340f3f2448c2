"""The head of a journal: which commit was the last, kept in the journal and once more beside it.

Owns the comparison of the two, which shows that commits are missing. The file beside is written after each commit
and never waited for, so that it may be older than the journal and never proves anything then; a journal that is older
than the file has lost what is between. Refuses to know what was committed.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from agentserver.engines.journal.seal import digest
from agentserver.engines.sqlite.lock import HEAD, beside
from agentserver.ports import EngineError

if TYPE_CHECKING:
    from agentserver.engines.journal.connection import Connection

logger = logging.getLogger("agentserver.journal")

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_WORD: Final = "agentserver-head-1"


class JournalHead(NamedTuple):
    """The last commit of a journal.

    Args:
        identity: of the journal, in hexadecimal; a copy has the same.
        steps: committed since the journal began.
        link: of the chain of the last step, in hexadecimal.
    """

    identity: str
    steps: int
    link: str

    def after(self, links: list[bytes]) -> JournalHead:
        """The head once steps with these links are committed."""
        return self._replace(steps=self.steps + len(links), link=links[-1].hex())


class HeadRecord(NamedTuple):
    """The contents of the file beside the journal.

    Args:
        durable: whether each commit waited for the disk.
        boot: when the machine was started, as its kernel names it; empty where it does not.
    """

    head: JournalHead
    durable: bool
    boot: str


def read(connection: Connection) -> JournalHead | None:
    """The head as the journal has it; None in an empty journal.

    Raises EngineError when it is not what was written.
    """
    if not connection.execute("select 1 from sqlite_master where name = 'head'").fetchone():
        return None
    row = connection.execute("select identity, steps, link, seal from head").fetchone()
    if row is None:
        return None
    identity, steps, link, seal = row
    if seal and seal != digest(("head", steps), identity, link):
        raise EngineError("the journal's head is not what was written: the file is damaged")
    return JournalHead(identity.hex(), steps, link.hex())


def keep(connection: Connection, head: JournalHead) -> None:
    """Write it into the journal, in the transaction that it is of."""
    identity, link = bytes.fromhex(head.identity), bytes.fromhex(head.link)
    seal = digest(("head", head.steps), identity, link)
    connection.execute("update head set steps = ?, link = ?, seal = ?", (head.steps, link, seal))


class HeadFile:
    """The file beside the journal.

    Args:
        path: of the journal.
        durable: whether each commit waits for the disk.
    """

    def __init__(self, path: Path, *, durable: bool) -> None:
        self._file = beside(path, HEAD)
        self._end = f"{durable:d} {_boot() or '-'}"

    def note(self, head: JournalHead) -> None:
        """Write it. One that cannot be written leaves an older one, which proves nothing."""
        text = f"{_WORD} {head.identity} {head.steps:020} {head.link} {self._end}"
        with suppress(OSError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(self._file, flags, 0o600)
            try:
                os.pwrite(descriptor, f"{text} {_sum(text)}\n".encode(), 0)
            finally:
                os.close(descriptor)


def noted(path: Path) -> HeadRecord | None:
    """Read the file beside the journal; None when there is none, or one that cannot be read, which is logged."""
    file = beside(path, HEAD)
    try:
        said = _parsed(file.read_text("ascii", "replace"))
    except FileNotFoundError:
        return None
    except OSError:
        said = None
    if said is None:
        logger.error("%s: it cannot be read: commits that are missing at this start would not be seen", file)
    return said


def _parsed(line: str) -> HeadRecord | None:
    text, _, summed = line.removesuffix("\n").rpartition(" ")
    if summed != _sum(text) or not text.startswith(_WORD):
        return None
    _, identity, steps, link, durable, boot = text.split(" ")
    return HeadRecord(JournalHead(identity, int(steps), link), durable == "1", "" if boot == "-" else boot)


def missing(path: Path, head: JournalHead | None, said: HeadRecord | None) -> str | None:
    """In words, what the journal has lost since the file beside it was written; None when nothing is known to be.

    Args:
        path: of the journal.
        head: as the journal has it.
        said: what the file says; read before the journal, where a server may be writing both.

    Raises EngineError when nothing innocent explains it: without ``sync: full`` a loss of power does.
    """
    if said is None or not said.head.steps:
        return None
    if head is None:
        lost = f"all of its {said.head.steps} steps are missing"
    elif head.identity != said.head.identity:
        lost = f"another journal stands in its place; {said.head.steps} steps are missing"
    elif head.steps < said.head.steps:
        lost = f"the last {said.head.steps - head.steps} of its {said.head.steps} steps are missing"
    elif head.steps == said.head.steps and head.link != said.head.link:
        lost = "its last step is not the one that was committed"
    else:
        return None
    power = not said.durable and (not said.boot or said.boot != _boot())
    if power and (head is None or head.identity == said.head.identity):
        return f"{path}: {lost}: the machine was started anew, and without sync: full that may happen"
    raise EngineError(
        f"{path}: {lost}. Bring back the file and its {path.name}-wal if they are elsewhere, or a copy with"
        " agentserver journal restore; agentserver journal accept-loss goes on without what is missing"
    )


def accept(path: Path) -> bool:
    """Forget what stands beside the journal; False when nothing does. The lock must be held."""
    try:
        beside(path, HEAD).unlink()
    except FileNotFoundError:
        return False
    return True


def _boot() -> str:
    with suppress(OSError):
        return _BOOT.read_text("ascii").strip()
    return ""


def _sum(text: str) -> str:
    return blake2b(text.encode(), digest_size=8).hexdigest()
