r"""Regular expressions of Python's ``re`` as trees, as far as the profile of patterns goes.

Parses atoms, classes, groups, alternatives, repetitions and anchors, after ``re.compile`` has accepted the text. An
expression with anything else in it (look-around other than the one that elementpath writes for ``$``; references,
conditions, flags, named characters) is a single ``OTHER`` node, whose meaning is unknown.

A tree is a list of nodes, and a node an operation with its value:

======================  =============================================================
LITERAL, NOT_LITERAL    the code point
IN                      a list of LITERAL, RANGE ``(low, high)`` and CATEGORY ``letter``; the first may be NEGATE
ANY                     None
GROUP                   the tree inside
BRANCH                  a list of trees
GREEDY, LAZY, HELD      ``(low, high, tree)``; without a bound, high is UNBOUNDED
AT                      ``^``, ``$`` or ``Z``
AT_END                  None: the look-ahead ``(?!\n\Z)``
OTHER                   None
======================  =============================================================

Trees are normalised so that equivalent spellings are equal: non-capturing groups are removed, atoms common to all
alternatives are moved in front of them, and alternatives of single characters become a class.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping


class Op(Enum):
    """Kinds of nodes and of class items."""

    LITERAL = auto()
    NOT_LITERAL = auto()
    IN = auto()
    NEGATE = auto()
    RANGE = auto()
    CATEGORY = auto()
    ANY = auto()
    GROUP = auto()
    BRANCH = auto()
    GREEDY = auto()
    LAZY = auto()
    HELD = auto()
    AT = auto()
    AT_END = auto()
    OTHER = auto()


Node: TypeAlias = "tuple[Op, Any]"
Tree: TypeAlias = "list[Node]"

UNBOUNDED: Final = 1 << 32
"""The upper limit of an unbounded repetition; no expression can state as many."""

_PLAIN: Final[Mapping[str, Node]] = {
    r"(?!\n\Z)": (Op.AT_END, None),
    ".": (Op.ANY, None),
    "^": (Op.AT, "^"),
    "$": (Op.AT, "$"),
    r"\Z": (Op.AT, "Z"),
}
_BOUNDS = re.compile(r"\{(?:([0-9]+)(?:(,)([0-9]*))?|(,)([0-9]*))\}")
_SPECIAL: Final = {"n": 10, "t": 9, "r": 13, "f": 12, "v": 11, "a": 7}
_HEX: Final = {"x": 2, "u": 4, "U": 8}
_SIGNS: Final = {"*": (0, UNBOUNDED), "+": (1, UNBOUNDED), "?": (0, 1)}
_ATOMS: Final = frozenset({Op.LITERAL, Op.NOT_LITERAL, Op.IN, Op.ANY, Op.AT, Op.AT_END})
_CATEGORIES: Final = frozenset("dDsSwW")


class _StrangeError(Exception):
    """Signal that the expression has something outside the profile."""


def parse(text: str) -> Tree:
    """Parse an expression. Raises re.error, OverflowError and RecursionError like ``re.compile``."""
    re.compile(text)
    reading = _Parser(text)
    try:
        return reading.alternatives()
    except _StrangeError:
        return [(Op.OTHER, None)]


class _Parser:
    """Recursive-descent parser over a text that ``re`` has accepted."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def take(self) -> str:
        """Consume one character; empty at the end."""
        char = self.text[self.at : self.at + 1]
        self.at += 1
        return char

    def takes(self, what: str) -> bool:
        """Consume exactly this text if it comes next."""
        found = self.text.startswith(what, self.at)
        self.at += len(what) * found
        return found

    def alternatives(self) -> Tree:
        """Parse the text up to the end of the group, or of the whole."""
        branches = [self.sequence()]
        while self.takes("|"):
            branches.append(self.sequence())
        return branches[0] if len(branches) == 1 else _merge_branches(branches)

    def sequence(self) -> Tree:
        tree: Tree = []
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            atom = self.atom()
            turns = self.turns()
            tree += atom if turns is None else [(turns[0], (*turns[1:], atom))]
        return tree

    def atom(self) -> Tree:
        """Parse one atom; a non-capturing group gives its content."""
        for plain, node in _PLAIN.items():
            if self.takes(plain):
                return [node]
        char = self.take()
        if char == "(":
            return self.group()
        if char == "[":
            return [self.characters()]
        if char != "\\":
            return [(Op.LITERAL, ord(char))]
        kind, value = self.escape()
        return [(Op.IN, [(kind, value)])] if kind is Op.CATEGORY else [(kind, value)]

    def group(self) -> Tree:
        plain = self.takes("?:")
        if not plain and self.text.startswith("?", self.at):
            raise _StrangeError
        inside = self.alternatives()
        self.take()
        return inside if plain else [(Op.GROUP, inside)]

    def turns(self) -> tuple[Op, int, int] | None:
        """Parse the repetition after an atom, if there is one."""
        sign = self.text[self.at : self.at + 1]
        found = _BOUNDS.match(self.text, self.at)
        if sign in _SIGNS:
            self.at += 1
            low, high = _SIGNS[sign]
        elif found is not None:
            self.at = found.end()
            low, high = _bounds(found)
        else:
            return None
        return (Op.LAZY if self.takes("?") else Op.HELD if self.takes("+") else Op.GREEDY), low, high

    def characters(self) -> Node:
        """Parse a character class."""
        negated = self.takes("^")
        items: list[Node] = []
        while not items or not self.takes("]"):
            low = self.member()
            if self.text.startswith("-", self.at) and not self.text.startswith("-]", self.at):
                self.take()
                items.append((Op.RANGE, (low[1], self.member()[1])))
            else:
                items.append(low)
        unique = list(dict.fromkeys(items))
        if len(unique) == 1 and unique[0][0] is Op.LITERAL:
            return (Op.NOT_LITERAL if negated else Op.LITERAL), unique[0][1]
        return Op.IN, [(Op.NEGATE, None), *unique] if negated else unique

    def member(self) -> Node:
        """Parse one character of a class, or a category."""
        if not self.takes("\\"):
            return Op.LITERAL, ord(self.take())
        return (Op.LITERAL, 8) if self.takes("b") else self.escape()

    def escape(self) -> Node:
        """Parse the character after a backslash."""
        char = self.take()
        if char in _CATEGORIES:
            return Op.CATEGORY, char
        if char in _SPECIAL:
            return Op.LITERAL, _SPECIAL[char]
        if char in _HEX:
            self.at += _HEX[char]
            return Op.LITERAL, int(self.text[self.at - _HEX[char] : self.at], 16)
        if char.isascii() and char.isalnum():  # a boundary, a reference, an octal number, a name
            raise _StrangeError
        return Op.LITERAL, ord(char)


def _bounds(found: re.Match[str]) -> tuple[int, int]:
    exact, comma, most, open_comma, open_most = found.groups()
    low = int(exact or 0)
    if not (comma or open_comma):
        return low, low
    high = most or open_most
    return low, int(high) if high else UNBOUNDED


def _merge_branches(branches: list[Tree]) -> Tree:
    """Normalise alternatives."""
    before: Tree = []
    while all(branch and branch[0][0] in _ATOMS and branch[0] == branches[0][0] for branch in branches):
        before.append(branches[0][0])
        branches = [branch[1:] for branch in branches]
    members: list[Node] = []
    for branch in branches:
        members += _members(branch)
    if all(_members(branch) for branch in branches):
        return [*before, (Op.IN, list(dict.fromkeys(members)))]
    return [*before, (Op.BRANCH, branches)]


def _members(branch: Tree) -> list[Node]:
    """List the class items equivalent to an alternative; empty unless it is a single character."""
    if len(branch) != 1:
        return []
    ((op, value),) = branch
    if op is Op.LITERAL:
        return [(op, value)]
    return value if op is Op.IN and value[0][0] is not Op.NEGATE else []
