"""One derived codec: values come back equal from either style, and whatever does not fit is refused with its place."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.codec import NAMES, ROWS, ValueCodec, ValueRefusedError, ValueStyle, write_json


class Color(StrEnum):
    RED = "red"
    BLUE = "blue"


class Point(NamedTuple):
    x: int
    y: float = 0.0
    label: str = ""


@dataclass(frozen=True, slots=True)
class Box:
    name: str
    at: Point | None = None
    tags: tuple[str, ...] = ()


class Tree(NamedTuple):
    name: str
    below: tuple[Tree | Leaf, ...] = ()


class Leaf(NamedTuple):
    data: bytes


class EveryKind(NamedTuple):
    color: Color
    word: Literal["once", "never"]
    blob: bytes | None
    peers: frozenset[str] | None
    table: Mapping[str, Point]
    pair: tuple[int, str]
    mixed: str | int | bool | Leaf | None
    rest: dict[str, Any]
    shape: Tree | Box = Tree("")
    rows: list[tuple[str, ...]] = []  # noqa: RUF012


class HiddenKind(NamedTuple):
    one: Elsewhere  # noqa: F821 - as where only type checkers import it


STYLES = pytest.mark.parametrize("style", [ROWS, NAMES], ids=["rows", "names"])
POINTS = st.builds(Point, st.integers(), st.floats(allow_nan=False), st.text())
BOXES = st.builds(Box, st.text(), st.none() | POINTS, st.lists(st.text()).map(tuple))
LEAVES = st.builds(Leaf, st.binary())
TREES = st.recursive(
    st.builds(Tree, st.text()),
    lambda below: st.builds(Tree, st.text(), st.lists(below | LEAVES, max_size=3).map(tuple)),
    max_leaves=5,
)
VALUES = st.builds(
    EveryKind,
    st.sampled_from(Color),
    st.sampled_from(["once", "never"]),
    st.none() | st.binary(),
    st.none() | st.frozensets(st.text()),
    st.dictionaries(st.text(), POINTS).map(MappingProxyType),
    st.tuples(st.integers(), st.text()),
    st.none() | st.text() | st.integers() | st.booleans() | LEAVES,
    st.dictionaries(st.text(), st.integers()),
    TREES | BOXES,
    st.lists(st.lists(st.text()).map(tuple)),
)


@STYLES
@given(VALUES)
def test_every_value_comes_back_equal_and_of_its_type(style, value):
    codec = ValueCodec(EveryKind, style=style, version=3)
    back = codec.load(codec.dump(value))
    assert back == value
    assert [type(one) for one in back] == [type(one) for one in value]


@STYLES
def test_texts_that_are_not_unicode_survive(style):
    codec = ValueCodec(Box, style=style)
    assert codec.load(codec.dump(Box("\ud800"))) == Box("\ud800")
    assert write_json({"\ud800": 1}) == b'{"\xed\xa0\x80":1}'


def test_rows_have_positions_and_no_defaults_at_the_end():
    codec = ValueCodec(Box | Point)
    assert codec.plain(Point(1)) == ("Point", 1)
    assert codec.plain(Point(1, 0.0, "a")) == ("Point", 1, 0.0, "a")
    assert codec.dump(Box("a", Point(2))) == b'["Box","a",[2]]'


def test_objects_have_every_field_and_the_names_of_the_style():
    style = ValueStyle(by_name=True, tag="type", tags={Point: "point"}, names={"x": "from"})
    codec = ValueCodec(Box | Point, style=style)
    assert codec.plain(Point(1)) == {"type": "point", "from": 1, "y": 0.0, "label": ""}
    assert codec.value({"type": "point", "from": 1}) == Point(1)


def test_objects_leave_out_what_has_its_default_where_the_style_says_so():
    codec = ValueCodec(Point, style=ValueStyle(by_name=True, sparse=True))
    assert codec.plain(Point(1)) == {"x": 1}
    assert codec.plain(Point(1, 0.0, "a")) == {"x": 1, "label": "a"}
    assert codec.value({"x": 1}) == Point(1)


def test_another_version_is_refused_and_named():
    old, new = ValueCodec(Point, version=1), ValueCodec(Point, version=2)
    with pytest.raises(ValueRefusedError, match="has format 1, and only format 2 is read here"):
        new.load(old.dump(Point(1)))
    for data in (b"[1]", b"7", b'["2",[1]]', b"[true,[1]]", b"", b"[" * 100_000):
        with pytest.raises(ValueRefusedError):
            new.load(data)


TREE = ValueCodec(Tree)
EVERY = ValueCodec(EveryKind, style=NAMES)
PLAIN = EVERY.plain(
    EveryKind(Color.RED, "once", None, None, {"a": Point(1)}, (1, "b"), None, {}, Box("c", Point(1)))
)


@pytest.mark.parametrize(
    ("codec", "plain", "refusal"),
    [
        (TREE, ["a", [["Tree", "b", [["Shrub", "x"]]]]], "/below/0/below/0/0: must be one of the kinds Leaf, Tree"),
        (TREE, ["a", [["Tree", "b", [[]]]]], "/below/0/below/0/0: must be one of the kinds Leaf, Tree"),
        (TREE, ["a", [["Leaf", 5]]], "/below/0/data: must be a text, or an object with base64"),
        (TREE, ["a", [["Leaf", {"base64": "?"}]]], "/below/0/data: must be a text, or an object with base64"),
        (TREE, [], "(value): must be a list of 1 to 2"),
        (TREE, ["a", [], 1], "(value): must be a list of 1 to 2"),
        (TREE, {"name": "a"}, "(value): must be a list"),
        (EVERY, {**PLAIN, "color": "green"}, "/color: must be one of red, blue"),
        (EVERY, {**PLAIN, "word": "twice"}, "/word: must be one of 'once', 'never'"),
        (EVERY, {**PLAIN, "mixed": 1.5}, "/mixed: must be one of"),
        (EVERY, {**PLAIN, "pair": [1]}, "/pair: must be a list of 2"),
        (EVERY, {**PLAIN, "pair": [True, "a"]}, "/pair/0: must be a whole number"),
        (EVERY, {**PLAIN, "peers": ["a", "a"]}, "/peers: must hold each item once"),
        (EVERY, {**PLAIN, "table": {"a": {"y": 1}}}, "/table/a/x: must be there"),
        (EVERY, {**PLAIN, "table": {"a\n/~": []}}, "/table/a\\n~1~0: must be an object"),
        (EVERY, {**PLAIN, "table": {"a": {"x": 1, "y": 10**400}}}, "/table/a/y: must be a number of binary64"),
        (EVERY, {**PLAIN, "shape": {"kind": "Cone"}}, "/shape/kind: must be one of the kinds Box, Tree"),
        (EVERY, {**PLAIN, "shape": {"kind": ["Box"]}}, "/shape/kind: must be one of the kinds Box, Tree"),
        (EVERY, {**PLAIN, "more": 1}, "/more: is not known here"),
        (EVERY, {name: one for name, one in PLAIN.items() if name != "rest"}, "/rest: must be there"),
    ],
)  # fmt: skip
def test_whatever_does_not_fit_is_refused_with_its_place(codec, plain, refusal):
    with pytest.raises(ValueRefusedError) as caught:
        codec.value(plain)
    assert str(caught.value).startswith(refusal)


def test_a_refusal_shows_a_bounded_path_without_the_value():
    with pytest.raises(ValueRefusedError) as caught:
        ValueCodec(Mapping[str, int]).value({"x" * 1000: "secret"})
    assert str(caught.value) == f"/{'x' * 64}: must be a whole number"


def test_members_that_are_not_known_are_skipped_where_the_style_says_so():
    codec = ValueCodec(Point, style=ValueStyle(by_name=True, lenient=True))
    assert codec.value({"x": 1, "z": 2}) == Point(1)


def test_a_check_refuses_values_that_do_not_belong_together():
    def check(point):
        if point.x > point.y:
            raise ValueError

    codec = ValueCodec(tuple[Point, ...], style=ValueStyle(checks={Point: check}))
    assert codec.value([[1, 2.0]]) == (Point(1, 2.0),)
    with pytest.raises(ValueRefusedError, match="/1: must hold values that belong together"):
        codec.value([[1, 2.0], [3]])


def test_a_value_of_another_class_is_not_written():
    with pytest.raises(TypeError, match="a Point cannot be written where one of Box, Tree belongs"):
        ValueCodec(Tree | Box).dump(Point(1))


@pytest.mark.parametrize(
    "kind", [complex, set[str], frozenset[int], Mapping[int, str], str | Color, tuple[int, ...] | Point, list[int] | tuple[int, ...]]
)  # fmt: skip
def test_a_type_that_could_not_be_read_back_has_no_codec(kind):
    with pytest.raises(TypeError, match="cannot be written"):
        ValueCodec(kind).plain(None)


def test_names_that_modules_import_for_type_checkers_come_from_the_scope():
    with pytest.raises(NameError):
        ValueCodec(HiddenKind).plain(HiddenKind(Point(1)))
    codec = ValueCodec(HiddenKind, {"Elsewhere": Point})
    assert json.loads(codec.dump(HiddenKind(Point(1)))) == [[1]]
