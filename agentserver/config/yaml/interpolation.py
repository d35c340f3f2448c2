"""``${NAME}`` and ``${file:path}`` inside the texts of a document.

Owns the notation and the reading of the named files. Works on parsed values, so that what is put in can never
become YAML. Refuses to know what the texts mean.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from agentserver.config.findings import did_you_mean
from agentserver.remedies.configuration import ConfigCode

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from agentserver.config.findings import Loc, Mistakes
    from agentserver.config.yaml.document import Document

MAX_FILE_BYTES = 1 << 16
"""Of a file named by ``${file:path}``."""

_TOKEN = re.compile(r"\$\$\{|\$\{(?P<inside>[^{}]*)\}|\$\{")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def substitute(
    document: Document, environ: Mapping[str, str], report: Mistakes
) -> tuple[Document, list[str]]:
    """The document with its references replaced, and the values put in, which are secrets.

    ``${file:path}`` is relative to the document's directory; one trailing newline is dropped. ``$${`` stands
    for ``${``. Values put in are not searched again. A reference that leads nowhere is an error and stays.
    """
    pass_over = _Pass(document, environ, report)
    data = pass_over.value(document.data, ())
    changed = replace(document, data=data, substituted=frozenset(pass_over.changed))
    return changed, pass_over.values


@dataclass(slots=True)
class _Pass:
    document: Document
    environ: Mapping[str, str]
    report: Mistakes
    values: list[str] = field(default_factory=list)
    changed: set[Loc] = field(default_factory=set)

    def value(self, value: Any, loc: Loc) -> Any:
        if isinstance(value, dict):
            return {key: self.value(item, (*loc, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self.value(item, (*loc, i)) for i, item in enumerate(value)]
        if isinstance(value, str) and "${" in value:
            return _TOKEN.sub(lambda match: self._replacement(match, loc), value)
        return value

    def _replacement(self, match: re.Match[str], loc: Loc) -> str:
        if match[0] == "$${":
            return "${"
        inside = match["inside"] or ""
        if inside.startswith("file:"):
            found = self._file(inside.removeprefix("file:"), loc)
        elif _NAME.fullmatch(inside):
            found = self._variable(inside, loc)
        else:
            message = f'"{match[0]}" is neither ${{NAME}} nor ${{file:path}}'
            return self._refuse(loc, message, "write $${ for a literal ${", match[0])
        if found is None:
            return match[0]
        self.values.append(found)
        self.changed.add(loc)
        return found

    def _refuse(self, loc: Loc, message: str, suggestion: str, original: str) -> str:
        self.report.error(ConfigCode.SECRET, self.document.where(loc), message, suggestion)
        return original

    def _variable(self, name: str, loc: Loc) -> str | None:
        if name not in self.environ:
            message = f"the environment variable {name} is not set"
            self._refuse(loc, message, did_you_mean(name, self.environ), name)
        return self.environ.get(name)

    def _file(self, name: str, loc: Loc) -> str | None:
        found = _contents(self.document.directory / name) if "\0" not in name else "its name holds a NUL"
        if isinstance(found, str):
            self._refuse(loc, f'cannot read "{name}": {found}', "", name)
            return None
        try:
            return found.decode("utf-8").removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError:
            self._refuse(loc, f'cannot read "{name}": it is not UTF-8 text', "", name)
            return None


def _contents(path: Path) -> bytes | str:
    """The bytes of a regular file, or why not."""
    try:
        if not path.is_file():
            return "there is no such file"
        with path.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        return error.strerror or "it is not readable"
    return data if len(data) <= MAX_FILE_BYTES else f"it is larger than {MAX_FILE_BYTES} bytes"
