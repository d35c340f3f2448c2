"""Sends the files of folders to listeners, each once.

Those who may write into a folder are strangers: links are refused, and no name of a file leads out of the folder.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
import time
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, Self

import anyio
import anyio.to_thread

from agentserver.contract import Code
from agentserver.core.refusals import ERROR_WORDINGS
from agentserver.core.state.principals import Principal, Trust
from agentserver.foreign_json.reading import JsonLimits
from agentserver.gateways.endings import start_ending, submit_event
from agentserver.payload.json.elements import convert_element
from agentserver.payload.json.values import JsonRefusal, read_json
from agentserver.payload.names import local
from agentserver.ports import Ingress, NotStoredError, QuotaError, RejectReason
from agentserver.ports.hooks import map_fields
from agentserver.supervision import EndEffect, start_helper
from agentserver.wire.envelope import canonical

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from anyio.abc import TaskGroup

    from agentserver.core.guard import Rules
    from agentserver.payload.json.values import JsonValue
    from agentserver.ports.hooks import Inbox

logger = logging.getLogger("agentserver.inbox")

PAUSE: Final = 1.0
"""Seconds between two looks at the folders."""

LATEST: Final = 60.0
"""Most seconds between two looks while the queue of the server is full."""

MOST: Final = 100
"""Files that one look takes from one folder."""

ENTRIES: Final = 10_000
"""Entries of a folder that one look reads."""

OPEN: Final = 10_000
"""Conversations that one inbox may have open."""

DONE, FAILED = "done", "failed"
"""Folders in an inbox, for files that were sent and for refused ones."""

UNFINISHED: Final = (".part", ".tmp")
"""Ends of the names of files that are being written."""

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NAME: Final = 200
"""Bytes of a name that stay when it is taken in the folder that a file is moved to."""


class InboxHost(Ingress, Protocol):
    """Needs of the inboxes from a server."""

    @property
    def rules(self) -> Rules:
        """The rules of its organism, with the codecs of payloads."""


class FileVersion(NamedTuple):
    """Content of a file, as far as its metadata shows."""

    inode: int
    size: int
    changed: int

    @classmethod
    def of(cls, info: os.stat_result) -> FileVersion:
        """Read it from the metadata."""
        return cls(info.st_ino, info.st_size, info.st_mtime_ns)


class InboxFile(NamedTuple):
    """File that was read.

    Args:
        name: in its folder.
        version: as it was read.
        key: of its request; the same after a crash, and at each server that shares the folder.
        data: content.
    """

    name: str
    version: FileVersion
    key: str
    data: bytes


class RefusedFileError(Exception):
    """A file cannot be a message. The text is the reason, without any of its content."""


@dataclass(slots=True)
class FileWatch:
    """Times at which the files of one folder were first seen unchanged. Pure: time is an argument."""

    _seen: Mapping[str, tuple[FileVersion, float]] = field(default_factory=dict)

    def list_settled(self, files: Mapping[str, FileVersion], now: float, settle: float) -> list[str]:
        """List the files that have not changed for ``settle`` seconds, the oldest first; forget files that left."""
        seen = {}
        for name, version in files.items():
            before, since = self._seen.get(name, (version, now))
            seen[name] = (version, since if before == version else now)
        self._seen = seen
        ripe = [name for name, (_, since) in seen.items() if now - since >= settle]
        return sorted(ripe, key=lambda name: (files[name].changed, name))


def is_taken(inbox: Inbox, name: str) -> bool:
    """Return whether an inbox takes files of a name."""
    hidden = name.startswith(".") or name.endswith(UNFINISHED)
    return not hidden and name not in {DONE, FAILED} and fnmatchcase(name, inbox.match)


def make_key(name: str, version: FileVersion, data: bytes) -> str:
    """Make the idempotency key of a file from its name, its time and its content."""
    head = f"{len(name.encode('utf-8', 'surrogateescape'))} {version.changed} "
    return sha256(head.encode() + name.encode("utf-8", "surrogateescape") + data).hexdigest()


def read_value(inbox: Inbox, file: InboxFile) -> JsonValue:
    """Read the value of a file. Raises RefusedFileError."""
    if inbox.format == "text":
        try:
            return {"name": os.fsencode(file.name).decode("utf-8", "replace"), "text": file.data.decode()}
        except UnicodeDecodeError:
            raise RefusedFileError("is not UTF-8") from None
    value = read_json(file.data, JsonLimits(bytes=len(file.data)))
    if isinstance(value, JsonRefusal):
        raise RefusedFileError(str(value))
    return value


def make_message(rules: Rules, inbox: Inbox, file: InboxFile) -> bytes:
    """Map a file to a message. Raises RefusedFileError."""
    codec = rules.codecs.for_root(inbox.root)
    if codec is None:
        raise RefusedFileError(f"{inbox.listener} does not take such files any longer")
    value = read_value(inbox, file)
    element = convert_element(codec, map_fields(inbox.fields, value, (field.name for field in codec.outline)))
    if isinstance(element, JsonRefusal):
        raise RefusedFileError(f"its fields do not fit {local(inbox.root)}: {element}")
    return canonical(element)


class InboxFolder:
    """Open folder of an inbox. Every access is relative to it, so that a swapped parent changes nothing.

    A context manager. Its methods block, and raise OSError.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._at, self._moved, self._open = path, -1, dict[str, int](), ExitStack()

    def __enter__(self) -> Self:
        """Open the folder, and make those that are missing."""
        self._path.mkdir(parents=True, exist_ok=True)
        with ExitStack() as opened:
            self._at = os.open(self._path, _FOLDER)
            opened.callback(os.close, self._at)
            for name in (DONE, FAILED):
                if not _exists(name, self._at):
                    os.mkdir(name, dir_fd=self._at)
                self._moved[name] = os.open(name, _FOLDER, dir_fd=self._at)
                opened.callback(os.close, self._moved[name])
            self._open = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Close the folder."""
        self.close()

    def close(self) -> None:
        """Close the folder."""
        self._open.close()

    def list_files(self, inbox: Inbox) -> dict[str, FileVersion]:
        """List what the inbox takes, links and folders included, which are refused later."""
        found = {}
        with os.scandir(self._at) as entries:
            for entry in islice((each for each in entries if is_taken(inbox, each.name)), ENTRIES):
                with suppress(FileNotFoundError):
                    found[entry.name] = FileVersion.of(entry.stat(follow_symlinks=False))
        return found

    def read(self, inbox: Inbox, name: str) -> InboxFile | None:
        """Read a file; None if it has left or is being written. Raises RefusedFileError."""
        try:
            at = os.open(name, _FILE, dir_fd=self._at)
        except FileNotFoundError:
            return None
        except OSError as error:
            reasons = {
                errno.ELOOP: "is a symbolic link",
                errno.ENXIO: "is no file",
                errno.EACCES: "cannot be read",
            }
            if error.errno not in reasons:
                raise
            raise RefusedFileError(reasons[error.errno]) from None
        try:
            version, data = _read_open(inbox, at)
            if len(data) != version.size or FileVersion.of(os.fstat(at)) != version:
                return None
        finally:
            os.close(at)
        return InboxFile(name, version, make_key(name, version, data), data)

    def move(self, name: str, to: str, version: FileVersion | None = None) -> str:
        """Move a file. Returns its name there; empty if it left before, or was replaced since ``version``."""
        try:
            info = os.stat(name, dir_fd=self._at, follow_symlinks=False)
        except FileNotFoundError:
            return ""
        if version is not None and FileVersion.of(info) != version:
            return ""
        target = name
        if _exists(name, self._moved[to]):
            rest = os.fsdecode(os.fsencode(name)[-_NAME:])
            target = f"{time.time_ns()}-{rest}"
        try:
            os.rename(name, target, src_dir_fd=self._at, dst_dir_fd=self._moved[to])
        except FileNotFoundError:
            return ""
        return target

    def refuse(self, name: str, reason: str) -> str:
        """Move a file to failed/, with the reason next to it. Returns its name there."""
        target = self.move(name, FAILED)
        if target:
            reason_file = os.fsdecode(os.fsencode(target)[:_NAME]) + ".reason"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            with suppress(FileExistsError):
                at = os.open(reason_file, flags, 0o600, dir_fd=self._moved[FAILED])
                with os.fdopen(at, "w", encoding="utf-8") as file:
                    file.write(reason + "\n")
        return target


def _read_open(inbox: Inbox, at: int) -> tuple[FileVersion, bytes]:
    """Read an open file, up to the largest size. Raises RefusedFileError."""
    info = os.fstat(at)
    if not stat.S_ISREG(info.st_mode):
        raise RefusedFileError("is no file")
    if info.st_nlink > 1:
        raise RefusedFileError("is a hard link")
    if info.st_size > inbox.largest:
        raise RefusedFileError(f"has {info.st_size} bytes, more than {inbox.largest}")
    with os.fdopen(at, "rb", closefd=False) as file:
        return FileVersion.of(info), file.read(inbox.largest + 1)


def _exists(name: str, folder: int) -> bool:
    """Return whether a folder has an entry, which may be a broken link."""
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


@dataclass
class InboxRunner:
    """Task that sends files.

    Args:
        host: gets them.
        inboxes: lists the inboxes, which a reload may change.
        project: the directory that their folders are relative to.
        steady: seconds of a clock that cannot be set.
        pause: seconds between two looks.
    """

    host: InboxHost
    inboxes: Callable[[], Iterable[Inbox]]
    project: Path
    steady: Callable[[], float] = time.monotonic
    pause: float = PAUSE
    _watches: dict[str, FileWatch] = field(default_factory=dict)
    _busy: dict[str, tuple[float, float]] = field(default_factory=dict)
    _down: set[str] = field(default_factory=set)

    async def run(self) -> None:
        """Look at the folders until cancelled."""
        async with anyio.create_task_group() as tasks:
            start_helper(tasks, "looks at the inboxes", EndEffect.RESTART, partial(self._look_always, tasks))

    async def _look_always(self, tasks: TaskGroup) -> None:
        while True:
            for inbox in tuple(self.inboxes()):
                await self.look(inbox, tasks)
            await anyio.sleep(self.pause)

    async def look(self, inbox: Inbox, tasks: TaskGroup) -> None:
        """Send what has settled in one folder. Log an unreadable folder once."""
        if self.steady() < self._busy.get(inbox.name, (0.0, 0.0))[0]:
            return
        folder = InboxFolder(self.project / inbox.folder)
        try:
            await anyio.to_thread.run_sync(folder.__enter__)
            with closing(folder):
                await self._take_settled(inbox, folder, tasks)
        except OSError as error:
            if inbox.name not in self._down:
                logger.error("the inbox %s cannot be read: %s", inbox.name, error)  # noqa: TRY400
            self._down.add(inbox.name)
        else:
            self._down.discard(inbox.name)

    async def _take_settled(self, inbox: Inbox, folder: InboxFolder, tasks: TaskGroup) -> None:
        """Send the files that have settled. Raises OSError, after all, if a file cannot be moved."""
        failures: list[OSError] = []
        files = await anyio.to_thread.run_sync(folder.list_files, inbox)
        watch = self._watches.setdefault(inbox.name, FileWatch())
        for name in watch.list_settled(files, self.steady(), inbox.settle)[:MOST]:
            try:
                if not await self._take(inbox, folder, name, tasks):
                    break
            except OSError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    async def _take(self, inbox: Inbox, folder: InboxFolder, name: str, tasks: TaskGroup) -> bool:
        """Send a file and move it. Returns False if the server takes none at present."""
        try:
            file = await anyio.to_thread.run_sync(folder.read, inbox, name)
            if file is None:
                return True
            message = await anyio.to_thread.run_sync(make_message, self.host.rules, inbox, file)
            sent = await self._send(inbox, file, message, tasks)
        except RefusedFileError as error:
            refused = await anyio.to_thread.run_sync(folder.refuse, name, str(error))
            logger.warning("the inbox %s refused the file %r: %s", inbox.name, refused, error)
            return True
        if sent:
            await anyio.to_thread.run_sync(folder.move, name, DONE, file.version)
        return sent

    async def _send(self, inbox: Inbox, file: InboxFile, message: bytes, tasks: TaskGroup) -> bool:
        """Submit the message of a file. Returns False if the server does not take it now. Raises RefusedFileError."""
        principal = Principal(inbox.principal, Trust.STRANGER, (inbox.listener,))
        try:
            handle = await self.host.open(principal, key=file.key, maximum=OPEN)
        except (QuotaError, NotStoredError):
            return False
        except ValueError as error:
            raise RefusedFileError(str(error)) from None
        handle.detach()
        sent = await submit_event(self.host, principal.name, handle.id, message, inbox.listener, file.key)
        if sent.code is Code.BUSY:
            _, pause = self._busy.get(inbox.name, (0.0, self.pause))
            self._busy[inbox.name] = (self.steady() + pause, min(2 * pause, LATEST))
            return False
        self._busy.pop(inbox.name, None)
        if isinstance(sent.code, Code):
            raise RefusedFileError(f"{sent.code}: {ERROR_WORDINGS[sent.code].message}")
        if sent.code is None and not sent.again:
            start_ending(
                tasks, f"a file of {principal.name}", self.host, principal.name, handle.id, sent.after
            )
        return sent.code in {None, RejectReason.OVER}
