"""Conditions on the fields of a payload, checked against its fields at load and evaluated on elements.

A condition that cannot be decided holds, so that a rule built on it acts: a missing value, another unit, a number
that cannot be read.
"""

from __future__ import annotations

import difflib
import operator
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias
from unicodedata import normalize

from agentserver.payload.fields.field_table import FieldKind, Scalar
from agentserver.payload.fields.lexical import READERS, UNREADABLE, WRITERS, ScalarKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from lxml import etree

    from agentserver.payload.fields.field_table import Field, PayloadType, RecordType

Operand: TypeAlias = bool | int | float | str
"""Value as the YAML has it."""


class Comparison(StrEnum):
    """Comparisons of a field; the values are the keys of the YAML."""

    OVER = "over"
    AT_LEAST = "at_least"
    UNDER = "under"
    AT_MOST = "at_most"
    IN = "in"
    NOT_IN = "not_in"


ORDERINGS: Final[Mapping[Comparison, Callable[[Any, Any], Any]]] = MappingProxyType(
    {
        Comparison.OVER: operator.gt,
        Comparison.AT_LEAST: operator.ge,
        Comparison.UNDER: operator.lt,
        Comparison.AT_MOST: operator.le,
    }
)
_LOWER: Final = frozenset({Comparison.OVER, Comparison.AT_LEAST})
_UNORDERED: Final = frozenset({ScalarKind.BOOL, ScalarKind.BYTES})
_EXACT: Final = frozenset({ScalarKind.INT, ScalarKind.FLOAT, ScalarKind.STR})
"""Kinds that are compared as decimal numbers, so that no digit is lost. A text may hold a number."""


class ConditionError(ValueError):
    """Condition that no message could meet, or that does not fit the payload. ``suggestion`` is a likely correction."""

    def __init__(self, message: str, suggestion: str = "") -> None:
        super().__init__(message)
        self.suggestion = suggestion


class SumBound(NamedTuple):
    """Bound of the sum of a field's values over the messages of a principal.

    Args:
        over: the greatest sum that may pass.
        within: seconds that are added up.
    """

    over: Decimal
    within: float


@dataclass(frozen=True, slots=True)
class FieldCondition:
    """Condition on one field, as declared. All its comparisons have to hold.

    Args:
        path: names of fields, joined by dots. If a field on it repeats, one of its items is enough.
        bounds: comparisons with one value.
        among: values of ``in``.
        outside: values of ``not_in``.
        unit: name and value of the field that has the unit, in the record of the last field; None without a unit.
        total: bound of a sum, in place of comparisons; None without one.
    """

    path: str
    bounds: tuple[tuple[Comparison, Operand], ...] = ()
    among: tuple[Operand, ...] = ()
    outside: tuple[Operand, ...] = ()
    unit: tuple[str, str] | None = None
    total: SumBound | None = None


class FieldTest(NamedTuple):
    """Condition that fits a payload.

    Args:
        steps: the fields on the path.
        namespace: of the payload's elements.
        tests: comparisons, each with its description. A test raises one of UNREADABLE for a text without a value.
        unit: the field that has the unit and its text; None without a unit.
        total: bound of a sum; the test is then whether the values can be added.
    """

    steps: tuple[Field, ...]
    namespace: str
    tests: tuple[tuple[str, Callable[[str], bool]], ...]
    unit: tuple[Field, str] | None
    total: SumBound | None = None

    @property
    def path(self) -> str:
        """The names of the fields on the path, joined by dots."""
        return ".".join(field.name for field in self.steps)

    @property
    def sum_key(self) -> str:
        """Name of the sum to which the values count."""
        return self.path if self.unit is None else f"{self.path} {self.unit[1]}"

    def add_up(self, element: etree._Element) -> Decimal | None:
        """Add the values of a valid element; None if one cannot be added."""
        if self.explain(element):
            return None
        return sum((_read_amount(text or "") for _, text in self._list_texts(element, self.steps)), Decimal())

    def explain(self, element: etree._Element) -> str:
        """Describe how a valid element meets the condition, without its values; empty if it does not."""
        path = self.path
        for record, text in self._list_texts(element, self.steps):
            if text is None:
                return f"{path} is missing"
            if self.unit is not None:
                field, unit = self.unit
                if (
                    next(iter(_read_occurrences(record, field, self.namespace)), _write_default(field))
                    != unit
                ):
                    return f"{field.name} is not {unit}"
            try:
                if self.total is not None:
                    _read_amount(text)
                elif all(test(text) for _, test in self.tests):
                    return f"{path} is {' and '.join(explanation for explanation, _ in self.tests)}"
            except UNREADABLE:
                return f"{path} cannot be {'compared' if self.total is None else 'added'}"
        return ""

    def _list_texts(
        self, element: etree._Element, steps: tuple[Field, ...]
    ) -> Iterator[tuple[etree._Element, str | None]]:
        """List the values at the end of the path, each with the element of its record; None for a missing one."""
        first, *rest = steps
        found = (
            _read_occurrences(element, first, self.namespace)
            if not rest
            else list(element.iterchildren(f"{{{self.namespace}}}{first.xml}"))
        )
        if not found:
            yield element, None if rest else _write_default(first)
        for one in found:
            if isinstance(one, str):
                yield element, one
            else:
                yield from self._list_texts(one, tuple(rest))


def _read_occurrences(element: etree._Element, field: Field, namespace: str) -> list[str]:
    """Read the texts of a scalar field."""
    if field.place is FieldKind.ATTRIBUTE:
        text = element.get(field.xml)
        return [] if text is None else [text]
    return [child.text or "" for child in element.iterchildren(f"{{{namespace}}}{field.xml}")]


def _write_default(field: Field) -> str | None:
    """Return the text of the value that a missing scalar has; None without a default."""
    if field.repeated or field.default is None or field.default.factory or field.default.value is None:
        return None
    assert isinstance(field.type, Scalar)
    value = field.default.value
    written = [text for text, choice in field.type.choices if choice is value or choice == value]
    return written[0] if written else WRITERS[field.type.kind](value)


def fit_conditions(
    payloads: Iterable[PayloadType | None], conditions: tuple[FieldCondition, ...]
) -> dict[str, tuple[FieldTest, ...]]:
    """Fit conditions to payloads by root element, each to those that have its field. Empty without conditions.

    ``payloads`` has None for one with a hand-written schema.

    Raises ConditionError, also for a condition without a payload and for a payload without a condition, whose messages
    would pass a rule that nobody wrote for them.
    """
    known = tuple(payloads) if conditions else ()
    fitted: dict[PayloadType, list[FieldTest]] = {}
    for payload in known:
        if payload is None:
            raise ConditionError("needs fields, and a hand-written schema has none", "required")
        fitted[payload] = []
    for condition in conditions:
        first = condition.path.partition(".")[0]
        having = [each for each in fitted if any(field.name == first for field in each.record.fields)]
        for payload in having or fitted:
            fitted[payload].append(fit_condition(payload, condition))
    for payload, tests in fitted.items():
        if not tests:
            message = f"no condition is about a field of {payload.root}, so that all its messages would pass"
            raise ConditionError(message, "add one, or leave the class out of payload_class")
    return {payload.qname: tuple(tests) for payload, tests in fitted.items()}


def check_windows(conditions: Iterable[FieldCondition], retention: float) -> None:
    """Raise ConditionError if a sum covers more seconds than messages are stored for."""
    for each in conditions:
        if each.total is not None and each.total.within > retention:
            message = f"{each.path}.sum.within is longer than the retention of finished conversations"
            raise ConditionError(message, f"at most {retention:.0f}s")


def fit_condition(payload: PayloadType, condition: FieldCondition) -> FieldTest:
    """Check a condition against the fields of a payload. Raises ConditionError."""
    steps: list[Field] = []
    record: RecordType | Scalar = payload.record
    holder = payload.record
    for name in condition.path.split("."):
        if isinstance(record, Scalar):
            raise ConditionError(f"{payload.root}: {steps[-1].name} is one value and has no field {name}")
        holder, field = record, _find_field(payload, record, name)
        steps.append(field)
        record = field.type
    if not isinstance(record, Scalar):
        inner = f"{condition.path}.{record.fields[0].name}" if record.fields else ""
        raise ConditionError(f"{payload.root}: {condition.path} is a record, not one value", inner)
    if condition.total is not None and (record.choices or record.kind not in {*_EXACT, ScalarKind.DECIMAL}):
        raise ConditionError(f"{condition.path} is no number, so that it has no sum")
    tests = [_bound(condition, record, *one) for one in condition.bounds]
    _check_range(condition, record)
    if condition.among:
        tests.append(_make_membership(condition, record, Comparison.IN, condition.among))
    if condition.outside:
        tests.append(_make_membership(condition, record, Comparison.NOT_IN, condition.outside))
    return FieldTest(
        tuple(steps),
        payload.namespace,
        tuple(tests),
        _unit(payload, holder, condition) if condition.unit else None,
        condition.total,
    )


def _find_field(payload: PayloadType, record: RecordType, name: str) -> Field:
    found = next((field for field in record.fields if field.name == name), None)
    if found is None:
        names = [field.name for field in record.fields]
        raise ConditionError(f"{payload.root} has no field {name}", _suggest(name, names))
    return found


def _suggest(text: str, known: list[str]) -> str:
    """Suggest the closest known text, or some of them."""
    return next(
        iter(difflib.get_close_matches(text, known, 1)), "one of " + ", ".join(known[:10]) if known else ""
    )


def _unit(payload: PayloadType, record: RecordType, condition: FieldCondition) -> tuple[Field, str]:
    assert condition.unit is not None
    name, text = condition.unit
    field = _find_field(payload, record, name)
    if not isinstance(field.type, Scalar) or field.repeated:
        raise ConditionError(f"{payload.root}: {name} is no single value, so that it has no unit")
    _read(field.type, text, f"unit.{name}")
    return field, text


def _bound(
    condition: FieldCondition, scalar: Scalar, comparison: Comparison, limit: Operand
) -> tuple[str, Callable[[str], bool]]:
    """Make the test of an order."""
    if scalar.choices or scalar.kind in _UNORDERED:
        raise ConditionError(
            f"{condition.path} has no order, so that nothing is {comparison} {limit}", "use in"
        )
    kind = ScalarKind.DECIMAL if scalar.kind in _EXACT else scalar.kind
    bound, compare = _read(Scalar(kind), limit, f"{condition.path}.{comparison}"), ORDERINGS[comparison]
    read = READERS[kind]

    def test(text: str) -> bool:
        return bool(compare(read(text.strip()), bound))

    return f"{comparison.replace('_', ' ')} {limit}", test


def _check_range(condition: FieldCondition, scalar: Scalar) -> None:
    """Raise ConditionError for bounds that no value meets together: all messages would pass the rule."""
    kind = Scalar(ScalarKind.DECIMAL if scalar.kind in _EXACT else scalar.kind)
    limits = [
        (comparison, limit, _read(kind, limit, condition.path)) for comparison, limit in condition.bounds
    ]
    for lower, least, low in limits:
        for upper, most, high in limits:
            if lower not in _LOWER or upper in _LOWER:
                continue
            closed = lower is Comparison.AT_LEAST and upper is Comparison.AT_MOST
            if low > high or (low == high and not closed):
                between = f"{lower} {least} and {upper} {most}".replace("_", " ")
                message = f"{condition.path}: nothing is {between} at once"
                raise ConditionError(message, "leave one of them out")


def _make_membership(
    condition: FieldCondition, scalar: Scalar, comparison: Comparison, values: tuple[Operand, ...]
) -> tuple[str, Callable[[str], bool]]:
    """Make the test of a list.

    ``in`` folds case and compatible characters of texts and ``not_in`` does not, so that both hold in doubt.
    """
    place = f"{condition.path}.{comparison}"
    folds = comparison is Comparison.IN and scalar.kind is ScalarKind.STR
    make: Callable[[Any], Any] = _fold if folds else READERS[scalar.kind]
    for value in values:
        _read(scalar, value, place)
    known = [make(_write(value)) for value in values]

    def test(text: str) -> bool:
        return (make(text) in known) is (comparison is Comparison.IN)

    return f"{'' if comparison is Comparison.IN else 'not '}one of {', '.join(map(str, values))}", test


def _read_amount(text: str) -> Decimal:
    """Read an amount. Raises one of UNREADABLE, also for a negative one, which would make room for others."""
    amount = READERS[ScalarKind.DECIMAL](text.strip())
    assert isinstance(amount, Decimal)
    if not amount.is_finite() or amount < 0:
        raise ValueError("it cannot be added")
    return amount


def _fold(text: str) -> str:
    return normalize("NFKC", normalize("NFKC", text).casefold()).strip()


def _write(value: Operand) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read(scalar: Scalar, value: Operand, place: str) -> Any:
    """Read a value of the YAML as one of the field. Raises ConditionError."""
    text = _write(value)
    choices = [each for each, _ in scalar.choices]
    if choices and text not in choices:
        raise ConditionError(f"{place}: the field never has the value {text}", _suggest(text, choices))
    try:
        return READERS[scalar.kind](text)
    except UNREADABLE:
        raise ConditionError(f"{place}: {text} is not a value of the type {scalar.kind}") from None
