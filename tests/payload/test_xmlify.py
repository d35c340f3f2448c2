"""Declarations of a class, their errors, and the attached values."""
# ruff: noqa: UP007, UP045, PYI061 - every spelling that authors use is tested

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum, Flag
from typing import Annotated, Any, ClassVar, Literal, Optional, Union

import annotated_types as at
import pytest
from annotated_types import Ge, Gt, Interval, Le, Len, Lt, MaxLen, MinLen, MultipleOf, Predicate

from agentserver.contract import SYSTEM_PAYLOADS, Attribute, Element, Pattern
from agentserver.payload.codec import Codecs, GeneratedCodec
from agentserver.payload.fields.describe import DEPTH, FIELDS, table
from agentserver.payload.fields.field_table import Count, PayloadError, PayloadType
from agentserver.payload.xmlify import describe, xmlify
from tests.core.strategies import parse

Name = Annotated[str, MinLen(1), MaxLen(9)]


def class_of(annotation: Any, **default: Any) -> type:
    """A class with one field ``v``."""
    extra = (field(**default),) if default else ()
    return dataclasses.make_dataclass("C", [("v", annotation, *extra)])


def test_the_decorator_attaches_a_table_and_a_name() -> None:
    @xmlify
    @dataclass(frozen=True, slots=True)
    class Order:
        note: str

    @xmlify(name="order", namespace="https://shop.example/orders/", version=3)
    @dataclass
    class Other:
        note: str

    assert Order.__xml_name__ == "{urn:agentserver:payload:Order:v1}Order"
    assert Other.__xml_name__ == "{https://shop.example/orders/v3}order"
    assert isinstance(Order.__payload__, PayloadType)
    assert Order.__payload__.cls is Order
    assert Order("x").note == "x"


def test_describe_leaves_the_class_alone() -> None:
    cls = class_of(str)
    assert describe(cls, name="c", namespace="urn:shop:c", version=2).qname == "{urn:shop:c:v2}c"
    assert not hasattr(cls, "__payload__")


@pytest.mark.parametrize("cls", SYSTEM_PAYLOADS)
def test_the_systems_payloads_can_be_described(cls: type) -> None:
    assert (
        describe(cls, namespace="urn:agentserver:system").qname
        == f"{{urn:agentserver:system:v1}}{cls.__name__}"
    )


def test_names_of_an_enclosing_function_are_found() -> None:
    class Colour(Enum):
        RED = "red"

    @dataclass
    class Inner:
        colour: Colour

    def deeper() -> type:
        @xmlify()
        @dataclass
        class Outer:
            inner: Inner
            more: list[Inner]

        return Outer

    assert [each.name for each in deeper().__payload__.records] == ["Outer", "Inner"]


def test_a_name_that_is_nowhere_is_refused() -> None:
    @dataclass
    class Lost:
        a: Nowhere  # type: ignore[name-defined] # noqa: F821 - the point of the test

    with pytest.raises(PayloadError, match=r"Lost: cannot resolve its annotations.*Nowhere"):
        xmlify(Lost)


def test_everything_a_dataclass_can_be() -> None:
    @dataclass
    class Parent:
        """A parent.

        Attributes:
            a: from the parent.
            b: overridden.
        """

        a: str
        b: int = 1

    @xmlify
    @dataclass(kw_only=True)
    class Child(Parent):
        """A child.

        Args:
            b: from
                the child.
            e, f: both.
        """

        c: ClassVar[int] = 5
        b: int = 2
        _: KW_ONLY
        e: str = ""
        f: str = field(default_factory=str)

    record = Child.__payload__.record
    assert [(each.name, each.keyword, each.doc) for each in record.fields] == [
        ("a", False, "from the parent."), ("b", True, "from the child."), ("e", True, "both."), ("f", True, "both."),
    ]  # fmt: skip
    assert record.doc == "A child."
    value = Child("x", b=5)
    codec = Codecs().of(Child)
    assert codec.decode(parse(codec.encode(value))) == value


def test_a_generated_docstring_is_no_documentation() -> None:
    assert describe(class_of(str)).record.doc == ""


def test_documentation_is_bounded_and_legal() -> None:
    cls = class_of(str)
    cls.__doc__ = "x " * 5000
    assert len(table(cls).record.doc) == 1000
    cls.__doc__ = "a\x00b"
    assert table(cls).record.doc == ""


@pytest.mark.parametrize(
    ("annotation", "count", "facets"),
    [
        (Annotated[Name, MaxLen(5)], Count.ONE, (1, 5)),
        (Optional[Name], Count.OPTIONAL, (1, 9)),
        (Annotated[Optional[Name], MinLen(2)], Count.OPTIONAL, (2, 9)),
        (Annotated[Annotated[str, MinLen(3)] | None, Len(1, 4)], Count.OPTIONAL, (3, 4)),
        (Annotated[list[Name], Len(1, 2)], Count.LIST, (1, 9)),
        (tuple[Annotated[str, Len(2)], ...], Count.TUPLE, (2, None)),
        (Union[None, str], Count.OPTIONAL, (0, None)),
    ],
)
def test_facets_are_found_wherever_they_stand(
    annotation: Any, count: Count, facets: tuple[int, int | None]
) -> None:
    (only,) = describe(class_of(annotation)).record.fields
    assert only.count is count
    assert (only.type.facets.length.minimum, only.type.facets.length.maximum) == facets


def test_the_tightest_bound_wins() -> None:
    (only,) = describe(
        class_of(Annotated[int, Ge(0), Gt(0), Ge(-5), Le(9), Lt(9), Interval(lt=100)])
    ).record.fields
    assert (only.type.facets.bounds.lower.value, only.type.facets.bounds.lower.inclusive) == (0, False)
    assert (only.type.facets.bounds.upper.value, only.type.facets.bounds.upper.inclusive) == (9, False)


def test_an_alias_statement_is_looked_through() -> None:
    class Alias:
        """What ``type Short = ...`` makes on newer Pythons."""

        def __init__(self, value: Any) -> None:
            self.__value__ = value

    (only,) = describe(class_of(Alias(Annotated[str, MaxLen(3)]))).record.fields
    assert only.type.facets.length.maximum == 3


class Point:
    pass


class Bits(Flag):
    A = 1


class MixedEnum(Enum):
    A = 1
    B = "b"


class Truth(Enum):
    YES = True


class Void(Enum):
    pass


class Illegal(Enum):
    A = "\x00"


@dataclass
class Tree:
    children: list[Tree]


@dataclass
class Held:
    a: str


Large = Enum("Large", {f"M{number}": number for number in range(1001)})  # type: ignore[misc]
UTC_NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        (dict[str, str], "dict.*key-value dataclass"), (set[str], "list"), (frozenset, "list"), (Any, "declare the type"),
        (object, "declare the type"), (list, "list\\[str\\]"), (tuple, "tuple\\[T, ...\\]"), (None, "leave the field out"),
        (complex, "two float"), (Mapping[str, int], "Mapping"), (Sequence[str], "use str, int"), (Point, "Point"),
        (int | str, "union"), (Optional[list[str]], "optional list"),
        (Optional[int | str], "union"), (list[list[str]], "wrap the item"), (list[str | None], "wrap the item"),
        (tuple[str, int], "fixed length"), (tuple[()], "fixed length"), (Bits, "Flag"), (MixedEnum, "all str, or all int"),
        (Truth, "all str, or all int"), (Void, "all str, or all int"), (Illegal, "cannot carry"), (Large, "more than 1000"),
        (Literal["a", 1], "all str, or all int"), (Literal["a", None], r"use \| None"), (Literal[b"a"], "all str"),
        (Annotated[str, Ge(1)], "takes no Gt"), (Annotated[bool, Ge(True)], "takes no Gt"), (Annotated[int, MinLen(1)], "use Ge and Le"),
        (Annotated[Held, MinLen(1)], "on its fields"), (Annotated[Literal["a"], MinLen(1)], "closed list"),
        (Annotated[int, Ge(0.5)], "bound that is no int"), (Annotated[int, Ge("a")], "must be int, not str"),
        (Annotated[int, Ge(10**1000)], "more than 1000 digits"), (Annotated[float, Ge(float("nan"))], "bound"),
        (Annotated[int, Ge(5), Le(4)], "allows no value"), (Annotated[int, Gt(5), Le(5)], "allows no value"),
        (Annotated[date, Ge(UTC_NOON)], "must be date, not datetime"), (Annotated[str, Len(3, 2)], "allows no length"),
        (Annotated[str, MinLen(-1)], "whole number from 0"), (Annotated[str, MaxLen(1.5)], "whole number from 0"),
        (Annotated[str, MinLen(10**9)], "no example could show"), (Annotated[list[str], MinLen(10**9)], "no example could show"),
        (Annotated[float, MultipleOf(0.1)], "int and Decimal"), (Annotated[int, MultipleOf(7)], "power of ten or a divisor of 1000"),
        (Annotated[int, MultipleOf(0)], "power of ten"), (Annotated[int, MultipleOf(0.5)], "int and Decimal"),
        (Annotated[Decimal, MultipleOf(Decimal("0.25"))], "such as Decimal"), (Annotated[int, MultipleOf(10**101)], "beyond 10"),
        (Annotated[int, MultipleOf(2), MultipleOf(5)], "two MultipleOf"), (Annotated[int, Pattern("1")], "str alone"),
        (Annotated[str, Pattern("^a$")], "must not use \\^"), (Annotated[str, Pattern("(")], "not a regular expression"),
        (Annotated[str, Pattern(5)], "must be text"), (Annotated[int, Predicate(bool)], "Predicate.*in the handler"),
        (at.LowerCase[str], "Predicate"), (Annotated[datetime, at.Timezone(None)], "Timezone"), (Annotated[str, "doc"], "constraint str"),
        (Annotated[list[str], Ge(1)], "has Ge on the list"), (Annotated[list[str], Pattern("a")], "has Pattern on the list"),
        (list[Annotated[str, Element("x")]], "around the list"), (Annotated[str, Element("a"), Attribute()], "keep one"),
        (Annotated[str, Element("a b")], "not an XML name"), (Annotated[str, Element("a:b")], "not an XML name"),
        (Annotated[str, Element("")], "not an XML name"), (Annotated[str, Element("{x}a")], "not an XML name"),
        (Annotated[str, Element("a" * 129)], "not an XML name"), (Annotated[str, Attribute("1")], "not an XML name"),
        (Annotated[str, Attribute("xmlns")], "not an XML name"), (Annotated[str, Element(5)], "not an XML name"),
        (Annotated[list[str], Attribute()], "one scalar"), (Annotated[Held, Attribute()], "one scalar"),
        (Annotated[time, Ge(time(9)), Ge(time(9, tzinfo=UTC))], "one bound with a time zone"),
    ],
)  # fmt: skip
def test_a_type_without_a_form_in_xml_is_refused_with_the_field(annotation: Any, reason: str) -> None:
    with pytest.raises(PayloadError, match=rf"^C\.v: .*{reason}"):
        describe(class_of(annotation))


@pytest.mark.parametrize(
    ("annotation", "default", "reason"),
    [
        (str | None, {"default": ""}, "make None its default"), (str | None, {"default_factory": str}, "make None"),
        (list[str], {"default_factory": lambda: ["a"]}, "use an empty one"), (Annotated[tuple[str, ...], MinLen(1)], {"default": ()}, "no least length"),
        (int, {"init": False}, "init=False"), (int, {"default": None}, "must be int, not NoneType"), (int, {"default": "1"}, "must be int"),
    ],
)  # fmt: skip
def test_a_default_that_does_not_fit_is_refused_with_the_field(
    annotation: Any, default: dict[str, Any], reason: str
) -> None:
    with pytest.raises(PayloadError, match=rf"^C\.v: .*{reason}"):
        describe(class_of(annotation, **default))


def test_a_default_that_breaks_its_own_facet_is_refused() -> None:
    with pytest.raises(
        PayloadError, match="C: a default or example value breaks a rule: C/v: must be integer from 1 to 5"
    ):
        describe(class_of(Annotated[int, Ge(1), Le(5)], default=9))
    with pytest.raises(PayloadError, match="C/@v: must be text of at most 1 char"):
        describe(class_of(Annotated[str, MaxLen(1), Attribute()], default="ab"))


def expect_refusal(build: Any, reason: str) -> None:
    with pytest.raises(PayloadError, match=reason):
        build()


def test_classes_that_are_no_payloads() -> None:
    @dataclass(init=False)
    class Bare:
        a: int

    @dataclass
    class Early:
        a: InitVar[int]

    class Plain:
        a: int

    class UndecoratedChild(Held):
        b: int

    for cls in (Plain, UndecoratedChild, int, Held("a")):
        expect_refusal(
            lambda cls=cls: xmlify(cls), "is not a dataclass; put @xmlify above @dataclass|not an XML name"
        )
    expect_refusal(lambda: describe(Held("a"), name="x"), "is not a dataclass")
    expect_refusal(lambda: xmlify(Bare), "init=True")
    expect_refusal(lambda: xmlify(Early), r"Early\.a: is an InitVar")
    expect_refusal(lambda: xmlify(Tree), r"Tree: contains itself; send a list with parent ids")
    expect_refusal(lambda: xmlify(class_of(Tree)), "Tree: contains itself")


def test_a_class_that_names_itself_in_a_function_contains_itself() -> None:
    @dataclass
    class Node:
        next: Node | None

    expect_refusal(lambda: xmlify(Node), "Node: contains itself")


def test_two_fields_may_not_share_a_name() -> None:
    @dataclass
    class Twice:
        a: str
        b: Annotated[str, Element("a")]

    @dataclass
    class Apart:
        a: str
        b: Annotated[str, Attribute("a")]

    expect_refusal(lambda: describe(Twice), r"Twice\.b: is named 'a' in XML, as a is")
    assert GeneratedCodec(table(Apart)).decode(
        parse(GeneratedCodec(table(Apart)).encode(Apart("x", "y")))
    ) == Apart("x", "y")


def test_sizes_are_bounded() -> None:
    expect_refusal(
        lambda: describe(dataclasses.make_dataclass("C", [(f"f{n}", str) for n in range(FIELDS + 1)])),
        "C: has more than 256",
    )
    full = dataclasses.make_dataclass("C", [(f"f{n}", str) for n in range(FIELDS)])
    assert len(describe(full).record.fields) == FIELDS
    deep: Any = str
    for number in range(DEPTH + 1):
        deep = dataclasses.make_dataclass(f"D{number}", [("v", deep)])
    expect_refusal(lambda: describe(deep), "D0: lies deeper than 16")
    wide: Any = str
    for number in range(DEPTH - 1):
        wide = dataclasses.make_dataclass(f"W{number}", [("a", wide), ("b", wide)])
    expect_refusal(lambda: describe(wide), "W14: holds more than 4096 elements")


def test_a_value_without_a_type_is_refused_because_a_dataclass_would_ignore_it() -> None:
    with pytest.raises(
        PayloadError, match=r"C\.w: has no type, so it is no field; write w: str, or w: ClassVar\[str\]"
    ):

        @xmlify
        @dataclass
        class C:
            v: str
            w = ""

    @xmlify
    @dataclass
    class D:
        v: str = ""
        w: ClassVar[str] = "constant"
        _x = 1

        def y(self) -> str:
            return self.w

    assert [each.name for each in describe(D).record.fields] == ["v"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"name": "a b"}, "'a b' is not an XML name"), ({"name": ""}, "not an XML name"), ({"version": 0}, "whole number from 1"),
        ({"version": True}, "whole number from 1"), ({"version": "1"}, "whole number from 1"), ({"namespace": "no uri"}, "urn:shop:order"),
        ({"namespace": "plain"}, "urn:shop:order"), ({"namespace": "urn:a\x00"}, "urn:shop:order"),
        ({"namespace": "http://www.w3.org/2001/XMLSchema"}, "of your own"), ({"namespace": "urn:agentserver:system"}, "server's own"),
        ({"namespace": ""}, "urn:shop:order"), ({"example": {"w": 1}}, "example= names 'w'"), ({"example": {"v": 1}}, r"C\.v: must be str"),
    ],
)  # fmt: skip
def test_arguments_are_checked(arguments: dict[str, Any], reason: str) -> None:
    with pytest.raises(PayloadError, match=reason):
        xmlify(**arguments)(class_of(str))


def test_no_name_of_a_class_reaches_the_generated_source() -> None:
    cls = class_of(str)
    cls.__qualname__ = "Odd' + 1/0 + '"
    assert GeneratedCodec(table(cls)).example()
    cls.__name__ = "a'b"
    expect_refusal(lambda: describe(cls, name="ok"), "XML name")


def test_an_explicit_example_is_used_if_none_can_be_derived() -> None:
    odd = Annotated[str, Pattern("a*b"), Pattern("(ca|a)*b"), Len(4, 4), Pattern(".*aab")]
    narrow = Annotated[Decimal, Gt(Decimal("0.1")), Lt(Decimal("0.10000000000000000000000000000000001"))]
    expect_refusal(
        lambda: describe(class_of(narrow)),
        r"C\.v: no example value found.*@xmlify\(example=\{'v': \.\.\.\}\)",
    )
    given = Decimal("0.100000000000000000000000000000000005")
    assert str(given) in GeneratedCodec(xmlify(example={"v": given})(class_of(narrow)).__payload__).example()
    assert describe(class_of(odd))


def test_a_nested_class_keeps_its_own_example() -> None:
    inner = xmlify(example={"v": "mine"})(class_of(str))
    assert (
        "<v>mine</v>"
        in GeneratedCodec(describe(dataclasses.make_dataclass("Outer", [("inner", inner)]))).example()
    )


def test_a_constructor_that_refuses_the_example_gets_an_error() -> None:
    @dataclass
    class Even:
        low: int
        high: int

        def __post_init__(self) -> None:
            if self.low >= self.high:
                raise ValueError("no")

    expect_refusal(lambda: xmlify(Even), "Even: its constructor refuses the example value.*give @xmlify")
    assert xmlify(example={"low": 0, "high": 1})(Even)


def test_a_constructor_that_refuses_its_own_document_gets_an_error() -> None:
    @dataclass
    class Once:
        a: str = "x"
        seen: ClassVar[list[str]] = []

        def __post_init__(self) -> None:
            self.seen.append(self.a)
            if len(self.seen) > 1:
                raise ValueError("no")

    expect_refusal(lambda: xmlify(Once), "of its own example")


def test_two_nested_classes_may_share_a_name() -> None:
    first, second = class_of(str), class_of(int)
    payload = describe(dataclasses.make_dataclass("C", [("a", first), ("b", second), ("again", first)]))
    assert [each.name for each in payload.records] == ["C", "C-3", "C-2"]
    assert GeneratedCodec(payload).example()


def test_a_class_may_be_called_like_a_type_of_the_schema() -> None:
    cls = dataclasses.make_dataclass("date", [("v", date), ("date", date)])
    assert describe(cls).record.name == "date-2"
