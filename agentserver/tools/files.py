"""The tools that list, read and write files below a folder.

Defines payloads, limits and error answers; ``below`` guarantees that no name, link or race leads out of the folder.

Declare ``read`` and ``list_files`` as ``trust: source``, and ``write`` as ``trust: sink``. A file is chosen by an
``Id["file"]`` from ``list_files``, or by the principal's own text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

import anyio.to_thread
from annotated_types import Gt, MaxLen, MinLen

from agentserver.contract import HandlerMetadata, HandlerResponse
from agentserver.payload.xmlify import xmlify
from agentserver.provenance.evidence.labels import Role, Standing
from agentserver.provenance.policy.marks import Id
from agentserver.tools import below, pages, require_settings

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "FileContent",
    "FileEntry",
    "FileList",
    "FileProblem",
    "FileSettings",
    "FileWritten",
    "ListFiles",
    "ReadFile",
    "WriteFile",
    "list_files",
    "read",
    "write",
]


LONGEST: Final = 1000
"""Characters of a file's name with its folders."""


class FileProblem(StrEnum):
    """Reason for not reading or writing a file."""

    MISSING = "missing"
    FORBIDDEN = "forbidden"  # outside the folder, or not a plain file
    EXISTS = "exists"
    TYPE = "type"  # not text
    SIZE = "size"
    FAILED = "failed"  # refused by the operating system


@xmlify(namespace="urn:agentserver-tools:files")
@dataclass(frozen=True, slots=True)
class ReadFile:
    """A file that is wanted.

    Args:
        file: its name below the folder, with ``/`` between.
    """

    file: Annotated[str, Id("file"), MinLen(1), MaxLen(LONGEST)]


@xmlify(namespace="urn:agentserver-tools:files")
@dataclass(frozen=True, slots=True)
class FileContent:
    """The text of a file, or the reason for not having it."""

    file: Annotated[str, Standing.PROSE]
    text: Annotated[str, Standing.PROSE] = ""
    problem: FileProblem | None = None


@xmlify(namespace="urn:agentserver-tools:files")
@dataclass(frozen=True, slots=True)
class ListFiles:
    """Asks which files there are."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file.

    Args:
        file: its name, for reading and writing.
        size: in bytes.
    """

    file: Annotated[str, Id("file"), MaxLen(LONGEST)]
    size: int


@xmlify(namespace="urn:agentserver-tools:files")
@dataclass(frozen=True, slots=True)
class FileList:
    """The files below the folder.

    Args:
        files: in the order of their names.
        more: whether there are others.
    """

    files: list[FileEntry] = field(default_factory=list)
    more: bool = False


@xmlify(namespace="urn:agentserver-tools:files")
@dataclass(frozen=True, slots=True)
class WriteFile:
    """A file that is to be written.

    Args:
        file: its name below the folder, with ``/`` between.
        text: all that it holds then.
    """

    file: Annotated[str, Id("file"), MinLen(1), MaxLen(LONGEST)]
    text: Annotated[str, Role.PAYLOAD]


@xmlify(namespace="urn:agentserver-tools:files")
@dataclass(frozen=True, slots=True)
class FileWritten:
    """The fate of a file that was to be written."""

    file: Annotated[str, Standing.PROSE]
    size: int = 0
    problem: FileProblem | None = None


@dataclass(frozen=True, slots=True)
class FileSettings:
    """Folder and limits of the file tools.

    Args:
        root: an existing folder.
        size: maximum bytes of one file.
        files: maximum number of listed files.
        replace: whether existing files may be overwritten.
        folders: whether missing subfolders are created.
    """

    root: str
    size: Annotated[int, Gt(0)] = 500_000
    files: Annotated[int, Gt(0)] = 1000
    replace: bool = False
    folders: bool = False


async def read(payload: ReadFile, metadata: HandlerMetadata) -> HandlerResponse:  # noqa: ARG001 - a handler's signature
    """Answer with the text of a file, or with the reason for not having it."""
    settings = require_settings(FileSettings)
    data = await _try(partial(below.read_file, settings.root, payload.file, settings.size))
    if isinstance(data, FileProblem):
        return HandlerResponse.respond(FileContent(payload.file, problem=data))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return HandlerResponse.respond(FileContent(payload.file, problem=FileProblem.TYPE))
    return HandlerResponse.respond(FileContent(payload.file, pages.writable(text)))


async def list_files(payload: ListFiles, metadata: HandlerMetadata) -> HandlerResponse:  # noqa: ARG001 - as above
    """Answer with the files below the folder."""
    settings = require_settings(FileSettings)
    found, truncated = await anyio.to_thread.run_sync(below.list_tree, settings.root, settings.files)
    named = [FileEntry(name, size) for name, size in found if _is_encodable(name)]
    return HandlerResponse.respond(FileList(named, truncated))


async def write(payload: WriteFile, metadata: HandlerMetadata) -> HandlerResponse:  # noqa: ARG001 - as above
    """Write a file and answer with the outcome. Repeating a successful write succeeds."""
    settings = require_settings(FileSettings)
    data = payload.text.encode()
    if len(data) > settings.size:
        return HandlerResponse.respond(FileWritten(payload.file, problem=FileProblem.SIZE))
    task = partial(
        below.write_file, settings.root, payload.file, data, replace=settings.replace, make=settings.folders
    )
    done = await _try(task)
    if isinstance(done, FileProblem):
        return HandlerResponse.respond(FileWritten(payload.file, problem=done))
    return HandlerResponse.respond(FileWritten(payload.file, len(data)))


def _is_encodable(name: str) -> bool:
    """Check that a payload can carry the name."""
    return len(name) <= LONGEST and pages.writable(name) == name


async def _try(work: Callable[[], bytes | None]) -> bytes | FileProblem:
    """Run file access in a thread. Returns the reason if it fails."""
    try:
        return await anyio.to_thread.run_sync(work) or b""
    except below.OutsideError:
        return FileProblem.FORBIDDEN
    except below.TooLargeError:
        return FileProblem.SIZE
    except FileNotFoundError:
        return FileProblem.MISSING
    except FileExistsError:
        return FileProblem.EXISTS
    except OSError:
        return FileProblem.FAILED
