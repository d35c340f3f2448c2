"""The head of a journal: its last commit, stored in the journal and in a separate file.

The file is written after each commit without waiting for it, so an older file proves nothing. A journal older than the
file has lost commits.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from agentserver.engines.journal.seal import digest
from agentserver.engines.sqlite.lock import HEAD, find_companion
from agentserver.ports import EngineError

if TYPE_CHECKING:
    from agentserver.engines.journal.connection import Connection

logger = logging.getLogger("agentserver.journal")

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_WORD: Final = "agentserver-head-1"


class JournalHead(NamedTuple):
    """Last commit of a journal.

    Args:
        identity: of the journal, in hexadecimal; a copy has the same.
        steps: committed since the journal began.
        link: of the chain of the last step, in hexadecimal.
    """

    identity: str
    steps: int
    link: str

    def compute_after(self, links: list[bytes]) -> JournalHead:
        """Compute the head after steps with these links."""
        return self._replace(steps=self.steps + len(links), link=links[-1].hex())


class HeadRecord(NamedTuple):
    """Contents of the head file.

    Args:
        durable: whether each commit waited for the disk.
        boot: the kernel's boot id, or empty.
    """

    head: JournalHead
    durable: bool
    boot: str


def read(connection: Connection) -> JournalHead | None:
    """Read the journal's head; None in an empty journal.

    Raises EngineError when it fails its seal.
    """
    if not connection.execute("select 1 from sqlite_master where name = 'head'").fetchone():
        return None
    row = connection.execute("select identity, steps, link, seal from head").fetchone()
    if row is None:
        return None
    identity, steps, link, seal = row
    if seal and seal != digest(("head", steps), identity, link):
        raise EngineError("the journal's head fails its seal: the file is damaged")
    return JournalHead(identity.hex(), steps, link.hex())


def keep(connection: Connection, head: JournalHead) -> None:
    """Write the head to the journal, within its transaction."""
    identity, link = bytes.fromhex(head.identity), bytes.fromhex(head.link)
    seal = digest(("head", head.steps), identity, link)
    connection.execute("update head set steps = ?, link = ?, seal = ?", (head.steps, link, seal))


class HeadFile:
    """File with the head of a journal.

    Args:
        path: of the journal.
        durable: whether each commit waits for the disk.
    """

    def __init__(self, path: Path, *, durable: bool) -> None:
        self._file = os.fspath(find_companion(path, HEAD))
        self._end = f"{durable:d} {_read_boot_id() or '-'}"

    def note(self, head: JournalHead) -> None:
        """Write the file. A failure leaves an older one, which proves nothing."""
        text = f"{_WORD} {head.identity} {head.steps:020} {head.link} {self._end}"
        with suppress(OSError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(self._file, flags, 0o600)
            try:
                os.pwrite(descriptor, f"{text} {_sum(text)}\n".encode(), 0)
            finally:
                os.close(descriptor)


def read_head_file(path: Path) -> HeadRecord | None:
    """Read the head file; None if it is missing, or unreadable, which is logged."""
    file = find_companion(path, HEAD)
    try:
        record = _parse_record(file.read_text("ascii", "replace"))
    except FileNotFoundError:
        return None
    except OSError:
        record = None
    if record is None:
        logger.error("%s: it cannot be read, so missing commits would not be detected at this start", file)
    return record


def _parse_record(line: str) -> HeadRecord | None:
    text, _, summed = line.removesuffix("\n").rpartition(" ")
    if summed != _sum(text) or not text.startswith(_WORD):
        return None
    _, identity, steps, link, durable, boot = text.split(" ")
    return HeadRecord(JournalHead(identity, int(steps), link), durable == "1", "" if boot == "-" else boot)


def describe_missing(path: Path, head: JournalHead | None, record: HeadRecord | None) -> str | None:
    """Describe the commits lost since the head file was written, or return None.

    Args:
        path: of the journal.
        head: of the journal.
        record: of the file; read it before the journal if a server may be writing both.

    Raises EngineError unless a power loss without ``sync: full`` explains the loss.
    """
    if record is None or not record.head.steps:
        return None
    if head is None:
        lost = f"all of its {record.head.steps} steps are missing"
    elif head.identity != record.head.identity:
        lost = f"another journal is in its place; {record.head.steps} steps are missing"
    elif head.steps < record.head.steps:
        lost = f"the last {record.head.steps - head.steps} of its {record.head.steps} steps are missing"
    elif head.steps == record.head.steps and head.link != record.head.link:
        lost = "its last step is not the one that was committed"
    else:
        return None
    power = not record.durable and (not record.boot or record.boot != _read_boot_id())
    if power and (head is None or head.identity == record.head.identity):
        return f"{path}: {lost}: the machine was restarted, and without sync: full that may happen"
    raise EngineError(
        f"{path}: {lost}. Bring back the file and its {path.name}-wal if they are elsewhere, or a copy with"
        " agentserver journal restore; agentserver journal accept-loss continues without the missing commits"
    )


def accept(path: Path) -> bool:
    """Delete the head file. Returns False if it is missing. Requires the lock."""
    try:
        find_companion(path, HEAD).unlink()
    except FileNotFoundError:
        return False
    return True


def _read_boot_id() -> str:
    with suppress(OSError):
        return _BOOT.read_text("ascii").strip()
    return ""


def _sum(text: str) -> str:
    return blake2b(text.encode(), digest_size=8).hexdigest()
