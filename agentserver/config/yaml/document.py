"""One YAML file as plain values, with the line of each.

Owns the reading of YAML and what is refused in every file: tags, bombs, duplicate keys, several
documents, scalars that YAML 1.1 reads as something their author did not write. Refuses to know what the
values are for.
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
from agentserver.config.findings import Where, dotted
from agentserver.config.yaml.plain import explained
from agentserver.remedies.configuration import ConfigCode

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
    """A YAML file that holds a mapping.

    Args:
        file: as the caller named it.
        directory: that holds it, absolute.
        data: the values: dict, list, str, int, float, bool, None.
        lines: the line, from 1, of each key and item.
        read_as: how YAML reads an unquoted scalar that is not text, as a phrase: ``the boolean no``.
        substituted: the texts into which a secret was put.
    """

    file: Path
    directory: Path
    data: Mapping[str, Any]
    lines: Mapping[Loc, int]
    read_as: Mapping[Loc, str]
    substituted: frozenset[Loc] = frozenset()

    def where(self, loc: Loc, *, missing: bool = False) -> Where:
        """The place of a value, or of the nearest one around it; the path of a missing one in full."""
        at = loc
        while at not in self.lines:
            at = at[:-1]
        return Where(self.file, self.lines[at], dotted(loc if missing else at))

    def said(self, loc: Loc) -> str:
        """The text at a place as it may be told: empty for what is no text of one line, and for secrets."""
        value = self.value(loc)
        hidden = any(loc[:end] in self.substituted for end in range(len(loc) + 1))
        told = isinstance(value, str) and not hidden and value.isprintable() and not _PASSWORD.search(value)
        return truncate(value, SAID) if told else ""

    def value(self, loc: Loc) -> Any:
        """The value at a place; None where there is none. A text that stands for a list of one is its first item."""
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
    """The file at ``path``, called ``shown`` in findings. None when it cannot be used at all."""
    text = _text(path, shown, report)
    if text is None:
        return None
    walk = _Walk(shown, report)
    try:
        root = _composed(text)
        if root is not None:
            data = walk.value(root, ())
    except yaml.YAMLError as error:
        line, problem = _problem(error, text)
        report.error(ConfigCode.YAML, Where(shown, line), problem)
        return None
    if root is None or not isinstance(data, dict):
        report.error(
            ConfigCode.MISSING, Where(shown, 1), 'a mapping with "name" and "listeners" was expected'
        )
        return None
    return Document(shown, Path(os.path.realpath(path.parent)), data, walk.lines, walk.read_as)


def _text(path: Path, shown: Path, report: Mistakes) -> str | None:
    try:
        if not path.is_file():
            report.error(ConfigCode.FILE, Where(shown, 1), "there is no such file")
            return None
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        report.error(ConfigCode.FILE, Where(shown, 1), f"cannot be read: {error.strerror}")
        return None
    if len(data) > MAX_BYTES:
        report.error(ConfigCode.FILE, Where(shown, 1), f"is larger than {MAX_BYTES} bytes")
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        report.error(
            ConfigCode.FILE,
            Where(shown, data.count(b"\n", 0, error.start) + 1),
            "is not UTF-8",
            "save it in that encoding",
        )
        return None


def _problem(error: yaml.YAMLError, text: str) -> tuple[int, str]:
    """Line and reason of a YAML error."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return explained(error, text)
    position = getattr(error, "position", 0)
    return text.count("\n", 0, position) + 1, "not valid YAML: a control character"


def _composed(text: str) -> Node | None:
    """The nodes of a file, read by libyaml where PyYAML has it: start-up is short of time.

    What it refuses is read again without it, and tabs, which it takes where PyYAML does not, are left to PyYAML: a file
    means the same everywhere.
    """
    if yaml.__with_libyaml__ and "\t" not in text:
        try:
            return _LibComposer(text).get_single_node()
        except yaml.YAMLError:
            pass
    return _PlainComposer(text).get_single_node()


class _Composer(Composer):
    """A node graph without tags and of bounded depth; it constructs nothing."""

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
    """Of what PyYAML reads by itself, with its words about mistakes."""


if yaml.__with_libyaml__:

    class _LibComposer(_Composer, yaml.CSafeLoader):
        """Of what libyaml reads; nodes and their bounds are the same."""

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
    """Turns nodes into values and remembers their lines."""

    file: Path
    report: Mistakes
    lines: dict[Loc, int] = field(default_factory=dict)
    read_as: dict[Loc, str] = field(default_factory=dict)

    def value(self, node: Node, loc: Loc) -> Any:
        self.lines.setdefault(loc, node.start_mark.line + 1)
        if len(loc) > MAX_DEPTH or len(self.lines) > MAX_VALUES:
            raise ComposerError(
                None, None, "too large or too deep with its aliases expanded", node.start_mark
            )
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, loc)
        if isinstance(node, yaml.SequenceNode):
            return self._sequence(node, loc)
        assert isinstance(node, yaml.ScalarNode)
        return self._scalar(node, loc)

    def _sequence(self, node: SequenceNode, loc: Loc) -> list[Any]:
        return [self.value(item, (*loc, i)) for i, item in enumerate(node.value)]

    def _mapping(self, node: MappingNode, loc: Loc) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key_node, item in node.value:
            key = self._key(key_node, loc)
            if key is None:
                continue
            at, line = (*loc, key), key_node.start_mark.line + 1
            if key in data:
                first = self.lines[at]
                self.report.error(
                    ConfigCode.KEY,
                    Where(self.file, line, dotted(at)),
                    f"duplicate key (first on line {first})",
                )
                continue
            self.lines[at] = line
            data[key] = self.value(item, at)
        return data

    def _key(self, node: Node, loc: Loc) -> str | None:
        """The key, or None when it is not text."""
        where = Where(self.file, node.start_mark.line + 1, dotted(loc))
        tag = node.tag.removeprefix(_TAG)
        if tag == "merge":
            self.report.error(
                ConfigCode.KEY, where, 'the merge key "<<" is not accepted', "write the keys out"
            )
        elif not isinstance(node, yaml.ScalarNode):
            self.report.error(ConfigCode.KEY, where, "a key must be text")
        elif tag in _PLAIN:
            self.report.error(
                ConfigCode.KEY, where, f"the key {_reading(tag, node.value)}", f'quote it: "{node.value}"'
            )
        else:
            return str(node.value)
        return None

    def _scalar(self, node: ScalarNode, loc: Loc) -> Any:
        tag, text = node.tag.removeprefix(_TAG), str(node.value)
        if tag not in _PLAIN:
            return text
        _, notation, convert = _PLAIN[tag]
        if notation.fullmatch(text):
            self.read_as[loc] = _reading(tag, text)
            return convert(text)
        told, number = truncate(text, SAID), "; a number is digits" if tag in {"int", "float"} else ""
        message = f"YAML 1.1 reads {told} as {_PLAIN[tag][0].replace('the', 'a')}, and not as it looks"
        where = Where(self.file, node.start_mark.line + 1, dotted(loc))
        self.report.error(ConfigCode.VALUE, where, message, f'quote it: "{told}"{number}')
        return text


def _reading(tag: str, text: str) -> str:
    """The reading that YAML has of an unquoted scalar, as a phrase."""
    return f"{_PLAIN[tag][0]} {text}" if text else _PLAIN[tag][0]
