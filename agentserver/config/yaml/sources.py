"""Reads the YAML files of one organism: ``include:``, and references to the environment and to files."""

from __future__ import annotations

import os.path
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentserver.config.findings import did_you_mean
from agentserver.config.yaml.document import read
from agentserver.remedies.configuration import ConfigCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentserver.config.findings import Loc, Mistakes
    from agentserver.config.yaml.document import Document

MAX_FILES = 100
"""YAML files of one organism."""


@dataclass(slots=True)
class Sources:
    """Reader of a file and its includes, depth first.

    Args:
        project: the directory that contains all files, absolute and without symbolic links.
        environ: values of ``${NAME}``.
        report: collects the findings.
    """

    project: Path
    environ: Mapping[str, str]
    report: Mistakes
    documents: list[Document] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    values: list[str] = field(default_factory=list)

    def read(self, path: Path) -> None:
        """Read the main file, named by ``path``, and its includes."""
        self._read(path, path, ())

    def _read(self, path: Path, shown: Path, chain: tuple[Path, ...]) -> None:
        real = Path(os.path.realpath(path))
        self.files.append(real)
        raw = read(path, shown, self.report)
        if raw is None:
            return
        document, values = substitute(raw, self.environ, self.report)
        self.documents.append(document)
        self.values += values
        includes = document.data.get("include")
        if isinstance(includes, list):
            for i, name in enumerate(includes):
                self._include(document, i, name, (*chain, real))

    def _include(self, document: Document, index: int, name: Any, chain: tuple[Path, ...]) -> None:
        if not isinstance(name, str) or "\0" in name:
            return
        path = document.directory / name
        refusal = self._explain_refusal(path, name, chain)
        if refusal:
            self.report.add_error(ConfigCode.FILE, document.locate(("include", index)), refusal)
            return
        self._read(path, Path(os.path.normpath(document.file.parent / name)), chain)

    def _explain_refusal(self, path: Path, name: str, chain: tuple[Path, ...]) -> str:
        """Return the reason why a file is not read; empty without one."""
        real = Path(os.path.realpath(path))
        if Path(name).is_absolute() or not real.is_relative_to(self.project):
            return f'"{name}" is outside the project directory; includes are relative and stay inside'
        if real in chain:
            return f'"{name}" includes itself, directly or through others'
        if real in self.files:
            return f'"{name}" is included twice'
        if len(self.files) >= MAX_FILES:
            return f"more than {MAX_FILES} files"
        if not path.is_file():
            return f'there is no file "{name}" beside this one'
        return ""


MAX_FILE_BYTES = 1 << 16
"""Of a file named by ``${file:path}``."""

_TOKEN = re.compile(r"\$\$\{|\$\{(?P<inside>[^{}]*)\}|\$\{")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def substitute(
    document: Document, environ: Mapping[str, str], report: Mistakes
) -> tuple[Document, list[str]]:
    """Replace the references in a document; returns the document and the secret values.

    ``${file:path}`` is relative to the directory of the document; one trailing newline is dropped. ``$${`` is a
    literal ``${``. Inserted values are not searched again. An unresolved reference is an error and remains.
    """
    pass_over = _Pass(document, environ, report)
    data = pass_over.resolve_value(document.data, ())
    changed = replace(document, data=data, substituted=frozenset(pass_over.changed))
    return changed, pass_over.values


@dataclass(slots=True)
class _Pass:
    document: Document
    environ: Mapping[str, str]
    report: Mistakes
    values: list[str] = field(default_factory=list)
    changed: set[Loc] = field(default_factory=set)

    def resolve_value(self, value: Any, loc: Loc) -> Any:
        if isinstance(value, dict):
            return {key: self.resolve_value(item, (*loc, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self.resolve_value(item, (*loc, i)) for i, item in enumerate(value)]
        if isinstance(value, str) and "${" in value:
            return _TOKEN.sub(lambda match: self._resolve_replacement(match, loc), value)
        return value

    def _resolve_replacement(self, match: re.Match[str], loc: Loc) -> str:
        if match[0] == "$${":
            return "${"
        inside = match["inside"] or ""
        if inside.startswith("file:"):
            found = self._find_file(inside.removeprefix("file:"), loc)
        elif _NAME.fullmatch(inside):
            found = self._find_variable(inside, loc)
        else:
            message = f'"{match[0]}" is neither ${{NAME}} nor ${{file:path}}'
            return self._refuse(loc, message, "write $${ for a literal ${", match[0])
        if found is None:
            return match[0]
        self.values.append(found)
        self.changed.add(loc)
        return found

    def _refuse(self, loc: Loc, message: str, suggestion: str, original: str) -> str:
        self.report.add_error(ConfigCode.SECRET, self.document.locate(loc), message, suggestion)
        return original

    def _find_variable(self, name: str, loc: Loc) -> str | None:
        if name not in self.environ:
            message = f"the environment variable {name} is not set"
            self._refuse(loc, message, did_you_mean(name, self.environ), name)
        return self.environ.get(name)

    def _find_file(self, name: str, loc: Loc) -> str | None:
        found = _read_contents(self.document.directory / name) if "\0" not in name else "its name holds a NUL"
        if isinstance(found, str):
            self._refuse(loc, f'cannot read "{name}": {found}', "", name)
            return None
        try:
            return found.decode("utf-8").removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError:
            self._refuse(loc, f'cannot read "{name}": it is not UTF-8 text', "", name)
            return None


def _read_contents(path: Path) -> bytes | str:
    """Read the bytes of a regular file, or return the reason why not."""
    try:
        if not path.is_file():
            return "there is no such file"
        with path.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        return error.strerror or "it is not readable"
    return data if len(data) <= MAX_FILE_BYTES else f"it is larger than {MAX_FILE_BYTES} bytes"


def find_project_directory(path: Path) -> Path:
    """Return the directory in which dotted paths resolve: of the file, or the parent of ``config``."""
    folder = Path(os.path.realpath(path.parent))
    return folder.parent if folder.name == "config" else folder


def find_shown_directory(path: Path, root: Path) -> Path:
    """Return the project directory relative to the path that the caller gave."""
    return Path(os.path.normpath(path.parent / os.path.relpath(root, os.path.realpath(path.parent))))


def resolve_outside(root: Path, path: str) -> Path | None:
    """Resolve a relative path, if it leads out of the project; else None."""
    place = Path(os.path.realpath(root / path))  # no error for a loop of links
    return None if Path(path).is_absolute() or place.is_relative_to(root) else place


def describe_outside(loc: Loc, path: str, place: Path, shown: Path) -> tuple[str, str]:
    """Return the message and the suggestion for a path outside the project."""
    return (
        f'"{path}" leads out of the project directory {shown}',
        f'"{loc[0]}.{loc[1]}: {place}", which is absolute, if intended',
    )
