"""Reads one YAML file into plain values, with the line of each.

Refuses tags, bombs, duplicate keys, several documents, and scalars that YAML 1.1 reads in a surprising way.
"""

from __future__ import annotations

import os.path
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from yaml.composer import Composer, ComposerError

from agentserver.characters.printing import truncate
from agentserver.config.findings import SourceSpan, format_path
from agentserver.remedies.configuration import ConfigCode
from agentserver.remedies.yaml_syntax import explain_error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

    from agentserver.config.findings import Loc, Mistakes

MAX_BYTES = 1 << 20
"""Of one YAML file."""

SAID = 60
"""Characters of a value that a finding repeats."""

_PASSWORD = re.compile(r"://[^/@]*:.*@")

MAX_DEPTH = 32
"""Levels of nesting."""

MAX_VALUES = 100_000
"""Values of one file, counted after aliases are expanded."""


@dataclass(frozen=True, slots=True)
class Document:
    """YAML file that contains a mapping.

    Args:
        file: as the caller named it.
        directory: that contains it, absolute.
        data: the values: dict, list, str, int, float, bool, None.
        lines: the line, from 1, of each key and item.
        read_as: how YAML reads an unquoted scalar that is not text, as a phrase: ``the boolean no``.
        substituted: the texts that contain a secret.
    """

    file: Path
    directory: Path
    data: Mapping[str, Any]
    lines: Mapping[Loc, int]
    read_as: Mapping[Loc, str]
    substituted: frozenset[Loc] = frozenset()

    def locate(self, loc: Loc, *, missing: bool = False) -> SourceSpan:
        """Locate a value, or the nearest one around it; a missing value keeps its full path."""
        at = loc
        while at not in self.lines:
            at = at[:-1]
        return SourceSpan(self.file, self.lines[at], format_path(loc if missing else at))

    def show(self, loc: Loc) -> str:
        """Return a printable text at a place: empty for other values, and for secrets."""
        value = self.find_value(loc)
        hidden = any(loc[:end] in self.substituted for end in range(len(loc) + 1))
        is_shown = (
            isinstance(value, str) and not hidden and value.isprintable() and not _PASSWORD.search(value)
        )
        return truncate(value, SAID) if is_shown else ""

    def find_value(self, loc: Loc) -> Any:
        """Return the value at a place; None for a missing one. A text in place of a list is its first item."""
        value: Any = self.data
        for part in loc:
            if isinstance(value, str) and part == 0:
                continue
            try:
                value = value[part]
            except (LookupError, TypeError):
                return None
        return value


def read(path: Path, shown: Path, report: Mistakes) -> Document | None:
    """Read the file at ``path``, called ``shown`` in findings. Returns None when it cannot be used."""
    text = _find_text(path, shown, report)
    if text is None:
        return None
    walk = _Walk(shown, report)
    try:
        root = _compose(text)
        if root is not None:
            data = walk.read_value(root, ())
    except yaml.YAMLError as error:
        line, problem = _describe_problem(error, text)
        report.add_error(ConfigCode.YAML, SourceSpan(shown, line), problem)
        return None
    if root is None or not isinstance(data, dict):
        report.add_error(
            ConfigCode.MISSING, SourceSpan(shown, 1), 'a mapping with "name" and "listeners" was expected'
        )
        return None
    return Document(shown, Path(os.path.realpath(path.parent)), data, walk.lines, walk.read_as)


def _find_text(path: Path, shown: Path, report: Mistakes) -> str | None:
    try:
        if not path.is_file():
            report.add_error(ConfigCode.FILE, SourceSpan(shown, 1), "there is no such file")
            return None
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        report.add_error(ConfigCode.FILE, SourceSpan(shown, 1), f"cannot be read: {error.strerror}")
        return None
    if len(data) > MAX_BYTES:
        report.add_error(ConfigCode.FILE, SourceSpan(shown, 1), f"is larger than {MAX_BYTES} bytes")
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        report.add_error(
            ConfigCode.FILE,
            SourceSpan(shown, data.count(b"\n", 0, error.start) + 1),
            "is not UTF-8",
            "save it in that encoding",
        )
        return None


def _describe_problem(error: yaml.YAMLError, text: str) -> tuple[int, str]:
    """Return line and reason of a YAML error."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return explain_error(error, text)
    position = getattr(error, "position", 0)
    return text.count("\n", 0, position) + 1, "not valid YAML: a control character"


def _compose(text: str) -> Node | None:
    """Compose the nodes of a file, with libyaml if available: start-up time matters.

    PyYAML rereads a file that libyaml refuses, and one with tabs, which libyaml accepts: a file means the same
    everywhere.
    """
    if yaml.__with_libyaml__ and "\t" not in text:
        try:
            return _LibComposer(text).get_single_node()
        except yaml.YAMLError:
            pass
    return _PlainComposer(text).get_single_node()


class _Composer(Composer):
    """Composer of a node graph without tags and of bounded depth; it constructs nothing."""

    _depth = 0
    peek_event: Callable[[], Any]  # of the parser that it is made with

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        """Refuse before the recursion goes deeper."""
        event = self.peek_event()
        if getattr(event, "tag", None):
            raise ComposerError(None, None, f'the tag "{event.tag}" is not accepted', event.start_mark)
        if self._depth >= MAX_DEPTH:
            raise ComposerError(None, None, f"more than {MAX_DEPTH} levels of nesting", event.start_mark)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


class _PlainComposer(_Composer, yaml.SafeLoader):
    """Composer that is PyYAML only, with its error messages."""


if yaml.__with_libyaml__:

    class _LibComposer(_Composer, yaml.CSafeLoader):
        """Composer that reads with libyaml; nodes and their bounds are the same."""

        def __init__(self, text: str) -> None:
            yaml.CSafeLoader.__init__(self, text)
            Composer.__init__(self)


_TAG = "tag:yaml.org,2002:"

_PLAIN: dict[str, tuple[str, re.Pattern[str], Callable[[str], Any]]] = {
    "null": ("nothing", re.compile(r".*"), lambda _: None),
    "bool": ("the boolean", re.compile(r".*"), lambda text: text.lower() in {"yes", "true", "on"}),
    "int": ("the number", re.compile(r"[-+]?(0|[1-9][0-9]{0,17})"), int),
    "float": ("the number", re.compile(r"[-+]?[0-9]{0,18}\.[0-9]{0,18}([eE][-+]?[0-9]{1,2})?"), float),
    "timestamp": ("a date or time", re.compile(r"(?!)"), str),
}
"""By YAML 1.1 type: its name, the notation of it that is accepted, the value."""


@dataclass(slots=True)
class _Walk:
    """Converter of nodes into values, with their lines."""

    file: Path
    report: Mistakes
    lines: dict[Loc, int] = field(default_factory=dict)
    read_as: dict[Loc, str] = field(default_factory=dict)

    def read_value(self, node: Node, loc: Loc) -> Any:
        self.lines.setdefault(loc, node.start_mark.line + 1)
        if len(loc) > MAX_DEPTH or len(self.lines) > MAX_VALUES:
            raise ComposerError(
                None, None, "too large or too deep with its aliases expanded", node.start_mark
            )
        if isinstance(node, yaml.MappingNode):
            return self._build_mapping(node, loc)
        if isinstance(node, yaml.SequenceNode):
            return self._collect_sequence(node, loc)
        assert isinstance(node, yaml.ScalarNode)
        return self._read_scalar(node, loc)

    def _collect_sequence(self, node: SequenceNode, loc: Loc) -> list[Any]:
        return [self.read_value(item, (*loc, i)) for i, item in enumerate(node.value)]

    def _build_mapping(self, node: MappingNode, loc: Loc) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key_node, item in node.value:
            key = self._find_key(key_node, loc)
            if key is None:
                continue
            at, line = (*loc, key), key_node.start_mark.line + 1
            if key in data:
                first = self.lines[at]
                self.report.add_error(
                    ConfigCode.KEY,
                    SourceSpan(self.file, line, format_path(at)),
                    f"duplicate key (first on line {first})",
                    "a dash begins another entry" if loc and isinstance(loc[-1], int) else "",
                )
                continue
            self.lines[at] = line
            data[key] = self.read_value(item, at)
        return data

    def _find_key(self, node: Node, loc: Loc) -> str | None:
        """Return the key; None when it is not text."""
        span = SourceSpan(self.file, node.start_mark.line + 1, format_path(loc))
        tag = node.tag.removeprefix(_TAG)
        if tag == "merge":
            self.report.add_error(
                ConfigCode.KEY, span, 'the merge key "<<" is not accepted', "write the keys out"
            )
        elif not isinstance(node, yaml.ScalarNode):
            self.report.add_error(ConfigCode.KEY, span, "a key must be text")
        elif tag in _PLAIN:
            self.report.add_error(
                ConfigCode.KEY,
                span,
                f"the key {_describe_reading(tag, node.value)}",
                f'quote it: "{node.value}"',
            )
        else:
            return str(node.value)
        return None

    def _read_scalar(self, node: ScalarNode, loc: Loc) -> Any:
        tag, text = node.tag.removeprefix(_TAG), str(node.value)
        if tag not in _PLAIN:
            return text
        _, notation, convert = _PLAIN[tag]
        if notation.fullmatch(text):
            self.read_as[loc] = _describe_reading(tag, text)
            return convert(text)
        shown, number = truncate(text, SAID), "; a number is digits" if tag in {"int", "float"} else ""
        message = f"YAML 1.1 reads {shown} as {_PLAIN[tag][0].replace('the', 'a')}, and not as it looks"
        span = SourceSpan(self.file, node.start_mark.line + 1, format_path(loc))
        self.report.add_error(ConfigCode.VALUE, span, message, f'quote it: "{shown}"{number}')
        return text


def _describe_reading(tag: str, text: str) -> str:
    """Describe how YAML reads an unquoted scalar."""
    return f"{_PLAIN[tag][0]} {text}" if text else _PLAIN[tag][0]
