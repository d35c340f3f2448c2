"""Mistakes of a configuration, each with its place."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, TypeVar

from agentserver.characters.printing import DOTS, escape_unseen, one_line, truncate
from agentserver.remedies.configuration import ConfigCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from agentserver.config.yaml.secrets import Secrets
    from agentserver.remedies.configuration import Remedy

Loc: TypeAlias = tuple[str | int, ...]
"""The way to a value inside a YAML document: keys and indexes."""

MAX_TEXT = 500
"""Characters of one message; the rest is cut."""

_KEY: Final = re.compile(r"(?:^|\.)([a-z_]+)(?=[.\[]|$)")
"""One key in the path of a value."""

MAX_FINDINGS = 200
"""Findings of one report; what follows is counted, not shown."""


class Severity(StrEnum):
    """Weight of a mistake: an error keeps the organism from loading; a warning does not."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class SourceSpan:
    """Place of a value in a YAML file: the file as the caller named it, the line from 1, the path in the file."""

    file: Path
    line: int
    path: str = ""

    def __str__(self) -> str:
        path = f": {self.path}" if self.path else ""
        return f"{one_line(str(self.file))}:{self.line}{path}"


@dataclass(frozen=True, slots=True)
class ConfigMistake:
    """Mistake of a configuration.

    Args:
        code: the kind of mistake, with its explanation.
        severity: whether the organism can load in spite of it.
        file: the YAML file, as the caller named it.
        line: from 1.
        path: of the value inside the file, such as ``listeners[2].peers[0]``; empty for the whole file.
        message: the mistake; one line, at most 500 characters, without control characters or secrets.
        suggestion: a likely correction, or empty.
    """

    code: Remedy
    severity: Severity
    file: Path
    line: int
    path: str
    message: str
    suggestion: str = ""

    def __str__(self) -> str:
        warning = "warning: " if self.severity is Severity.WARNING else ""
        path = f"{self.path}: " if self.path else ""
        suggestion = f" ({self.suggestion})" if self.suggestion else ""
        return f"{one_line(str(self.file))}:{self.line}: {warning}{path}{self.message}{suggestion}"

    def format_with_code(self) -> str:
        """Format the mistake with its code at the end of the line, after all text of a user."""
        return f"{self} [{self.code}]"


class ConfigError(Exception):
    """Error with every mistake of an organism. ``str()`` gives one line per mistake."""

    def __init__(self, findings: tuple[ConfigMistake, ...]) -> None:
        super().__init__("\n".join(map(str, findings)))
        self.findings = findings


@dataclass(slots=True)
class Mistakes:
    """Collector of the mistakes of one load; of errors about the same value it keeps the first."""

    findings: list[ConfigMistake] = field(default_factory=list)
    _faulty: set[SourceSpan] = field(default_factory=set)

    def add_error(self, code: ConfigCode, span: SourceSpan, message: str, suggestion: str = "") -> None:
        """Add a mistake that keeps the organism from loading."""
        if span.path and span in self._faulty:
            return
        self._faulty.add(span)
        self._add(code, Severity.ERROR, span, message, suggestion)

    def add_warning(self, code: ConfigCode, span: SourceSpan, message: str, suggestion: str = "") -> None:
        """Add a mistake that does not keep the organism from loading."""
        self._add(code, Severity.WARNING, span, message, suggestion)

    def _add(
        self, code: ConfigCode, severity: Severity, span: SourceSpan, message: str, suggestion: str
    ) -> None:
        place = (span.file, span.line, span.path)
        self.findings.append(ConfigMistake(code.value, severity, *place, message, suggestion))

    def check_secret(self, span: SourceSpan, key: str, value: str, secrets: Secrets) -> None:
        """Refuse the value of a key that is written into the file; a secret comes from outside."""
        if value not in secrets.needles:
            message = f"a {key} is never written into the file, and has 4 characters or more"
            suggestion = f'write {key}: "${{NAME}}" or {key}: "${{file:path}}"'
            self.add_error(ConfigCode.SECRET, span, message, suggestion)

    def check_listener(self, span: SourceSpan, name: str, known: Iterable[str]) -> None:
        """Refuse the name of a listener that is not there."""
        if name not in known:
            self.add_error(ConfigCode.NAME, span, f'unknown listener "{name}"', did_you_mean(name, known))

    @property
    def failed(self) -> bool:
        """True when there is an error."""
        return bool(self._faulty)

    def settle(self, files: Iterable[Path], secrets: Secrets) -> tuple[ConfigMistake, ...]:
        """Sort the mistakes by file (in the given order) and line, redact and bound them."""
        order = {file: i for i, file in enumerate(files)}
        ranked = sorted(self.findings, key=lambda f: (order.get(f.file, len(order)), f.line))
        shown = [_clean(f, secrets) for f in ranked[:MAX_FINDINGS]]
        if len(ranked) > MAX_FINDINGS:
            last = shown[-1]
            omitted = len(ranked) - MAX_FINDINGS
            severity = Severity.ERROR if self.failed else Severity.WARNING
            code = ConfigCode.MORE.value
            shown.append(
                ConfigMistake(code, severity, last.file, last.line, "", f"and {omitted} more findings")
            )
        return tuple(shown)


def _clean(finding: ConfigMistake, secrets: Secrets) -> ConfigMistake:
    """Redact secrets, except in keys: "postgres" is a usual password, which would hide the key of that name."""
    keys = _KEY.findall(finding.path)
    needles = tuple(needle for needle in secrets.needles if not any(needle in key for key in keys))
    secrets = replace(secrets, needles=needles)
    return replace(
        finding,
        path=escape_printable(secrets.redact(finding.path)),
        message=escape_printable(secrets.redact(finding.message)),
        suggestion=escape_printable(secrets.redact(finding.suggestion)),
    )


def escape_printable(text: str) -> str:
    """Escape control characters, and cut the text to one bounded line."""
    return escape_unseen(truncate(text, MAX_TEXT, DOTS))


def format_path(loc: Loc) -> str:
    """Format ``("listeners", 2, "peers", 0)`` as ``listeners[2].peers[0]``."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc)
    return text.removeprefix(".")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Suggest the nearest known name; empty without one."""
    by_fold: dict[str, list[str]] = {}
    for name in known:
        by_fold.setdefault(name.casefold(), []).append(name)
    near = difflib.get_close_matches(word[:100].casefold(), by_fold, n=1, cutoff=0.65)
    if not near:
        return ""
    # Of names that differ only in case, such as a class Send and a function send, the nearest as written.
    (name,) = difflib.get_close_matches(word[:100], by_fold[near[0]], n=1, cutoff=0)
    return f'did you mean "{name}"?'


class NamedEntry(Protocol):
    """Entry of a list with a unique name."""

    @property
    def name(self) -> str:
        """The name."""


E = TypeVar("E", bound=NamedEntry)


def index_by_name(
    entries: Iterable[E], locate: Callable[[int], SourceSpan], report: Mistakes
) -> dict[str, tuple[int, E]]:
    """Index entries by name, with their places in the list. Reports a repeated name and keeps the first."""
    found: dict[str, tuple[int, E]] = {}
    for at, entry in enumerate(entries):
        if entry.name in found:
            line = locate(found[entry.name][0]).line
            message = f'duplicate name "{entry.name}" (first on line {line})'
            report.add_error(ConfigCode.TWICE, locate(at), message)
        found.setdefault(entry.name, (at, entry))
    return found
