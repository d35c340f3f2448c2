"""Constraints of annotations as facets: which say something about which kind, merged to the tightest.

Owns the meaning of annotated-types and Pattern. Refuses to know fields; its errors hold the reason alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, TypeAlias

from annotated_types import Ge, GroupedMetadata, Gt, Le, Lt, MaxLen, MinLen, MultipleOf

from agentserver.contract import Pattern
from agentserver.payload.fields.field_table import Facets, Limit, ScalarKind
from agentserver.payload.fields.lexical import WRITERS
from agentserver.payload.fields.pattern import objection

LONGEST = 1000
"""Largest least length of a text, of octets or of a list."""
STEPS = 3
"""An integer step divides 10 to this power, so that the last digits decide; XSD 1.0 has no other way."""

LENGTHS = {ScalarKind.STR: "characters", ScalarKind.BYTES: "octets"}
"""The kinds that have a length, and the word for its unit."""
_ORDERED: Mapping[ScalarKind, type] = {
    ScalarKind.INT: int,
    ScalarKind.FLOAT: float,
    ScalarKind.DECIMAL: Decimal,
    ScalarKind.DATE: date,
    ScalarKind.TIME: time,
    ScalarKind.DATETIME: datetime,
}


def flat(metadata: Iterable[Any]) -> Iterator[Any]:
    """The metadata with groups such as Interval and Len taken apart."""
    for item in metadata:
        if isinstance(item, GroupedMetadata):
            yield from flat(item)
        else:
            yield item


def narrowed(kind: ScalarKind, metadata: Iterable[Any]) -> Facets:
    """The facets that ``metadata`` puts on a scalar. Raises ValueError with the reason and a way out."""
    facets = Facets()
    for item in metadata:
        apply = _APPLY.get(type(item))
        if apply is None:
            raise ValueError(
                f"has the constraint {_named(item)}, which XSD cannot state; use Gt, Ge, Lt, Le, Interval, "
                "MinLen, MaxLen, Len, MultipleOf or Pattern, and check the rest in the handler"
            )
        facets = apply(kind, facets, item)
    _check_range(facets)
    return facets


def lengths(metadata: Iterable[Any]) -> tuple[int, int | None]:
    """Least and most occurrences that ``metadata`` allows a list. Raises ValueError."""
    facets = Facets()
    for item in metadata:
        if not isinstance(item, (MinLen, MaxLen)):
            raise ValueError(  # noqa: TRY004 - one kind of refusal
                f"has {_named(item)} on the list; put it on the items, as in list[Annotated[str, ...]]: "
                "a list itself takes MinLen, MaxLen and Len"
            )
        facets = _APPLY[type(item)](ScalarKind.STR, facets, item)
    _check_range(facets)
    return facets.least, facets.most


def _named(item: object) -> str:
    return item.__name__ if isinstance(item, type) else type(item).__name__


def _check_range(facets: Facets) -> None:
    if facets.most is not None and facets.least > facets.most:
        raise ValueError(f"allows no length: at least {facets.least} and at most {facets.most}")
    low, high = facets.lower, facets.upper
    if low is None or high is None:
        return
    if low.value > high.value or (low.value == high.value and not (low.inclusive and high.inclusive)):
        raise ValueError("allows no value: its lower bound is above its upper bound")


def _limit(kind: ScalarKind, facets: Facets, raw: Any) -> Any:
    wanted = _ORDERED.get(kind)
    if wanted is None:
        raise ValueError(f"is {kind}, which takes no Gt, Ge, Lt, Le or Interval")
    value = raw
    if kind in {ScalarKind.INT, ScalarKind.FLOAT, ScalarKind.DECIMAL} and type(raw) in {int, float, Decimal}:
        value = wanted(repr(raw)) if kind is ScalarKind.DECIMAL and type(raw) is float else wanted(raw)
    try:
        WRITERS[kind](value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"has a bound that {error}") from None
    if any(end is not None and _zoned(end.value) != _zoned(value) for end in (facets.lower, facets.upper)):
        raise ValueError("has one bound with a time zone and one without")
    if value != raw and not (kind is ScalarKind.DECIMAL and type(raw) is float):
        raise ValueError(f"has a bound that is no {kind}")
    return value


def _lower(*, inclusive: bool) -> Callable[[ScalarKind, Facets, Any], Facets]:
    def apply(kind: ScalarKind, facets: Facets, item: Any) -> Facets:
        new = Limit(_limit(kind, facets, item.ge if inclusive else item.gt), inclusive)
        return replace(facets, lower=_tighter(facets.lower, new, lambda a, b: a > b))

    return apply


def _upper(*, inclusive: bool) -> Callable[[ScalarKind, Facets, Any], Facets]:
    def apply(kind: ScalarKind, facets: Facets, item: Any) -> Facets:
        new = Limit(_limit(kind, facets, item.le if inclusive else item.lt), inclusive)
        return replace(facets, upper=_tighter(facets.upper, new, lambda a, b: a < b))

    return apply


def _zoned(value: Any) -> bool:
    return getattr(value, "tzinfo", None) is not None


def _tighter(old: Limit | None, new: Limit, inner: Callable[[Any, Any], bool]) -> Limit:
    if old is None or inner(new.value, old.value):
        return new
    return new if new.value == old.value and not new.inclusive else old


def _length(raw: Any) -> int:
    if type(raw) is not int or raw < 0:
        raise ValueError("has a length that is not a whole number from 0")
    return raw


def _least_length(raw: Any) -> int:
    if _length(raw) > LONGEST:
        raise ValueError(f"has a least length above {LONGEST}, which no example could show")
    return int(raw)


def _least(kind: ScalarKind, facets: Facets, item: Any) -> Facets:
    _sized(kind)
    return replace(facets, least=max(facets.least, _least_length(item.min_length)))


def _most(kind: ScalarKind, facets: Facets, item: Any) -> Facets:
    _sized(kind)
    most = _length(item.max_length)
    return replace(facets, most=most if facets.most is None else min(facets.most, most))


def _sized(kind: ScalarKind) -> None:
    if kind not in LENGTHS:
        raise ValueError(f"is {kind}, which takes no MinLen, MaxLen or Len; use Ge and Le")


def _step(kind: ScalarKind, facets: Facets, item: Any) -> Facets:
    if kind not in {ScalarKind.INT, ScalarKind.DECIMAL} or type(item.multiple_of) not in {int, Decimal}:
        raise ValueError("takes no MultipleOf: XSD can state it of int and Decimal, with an int or a Decimal")
    step = Decimal(item.multiple_of)
    power = step > 0 and step.normalize().as_tuple().digits == (1,)
    if facets.step is not None:
        raise ValueError("has two MultipleOf; state their common multiple")
    if kind is ScalarKind.INT and not (
        step >= 1 and step == int(step) and (power or not 10**STEPS % int(step))
    ):
        raise ValueError(
            f"has a MultipleOf that XSD cannot state; use a power of ten or a divisor of {10**STEPS}"
        )
    if not power:
        if kind is ScalarKind.DECIMAL:
            raise ValueError(
                "has a MultipleOf that XSD cannot state; use a power of ten such as Decimal('0.01')"
            )
    elif abs(step.adjusted()) > _POWERS:
        raise ValueError(f"has a MultipleOf beyond 10 to the power of {_POWERS}")
    return replace(facets, step=step)


_POWERS = 100


def _pattern(kind: ScalarKind, facets: Facets, item: Any) -> Facets:
    if kind is not ScalarKind.STR:
        raise ValueError(f"is {kind}; a Pattern restricts str alone")
    reason = objection(item.regex) if isinstance(item.regex, str) else "must be text"
    if reason:
        raise ValueError(f"has a Pattern that {reason}")
    return replace(facets, patterns=(*facets.patterns, item.regex))


_Apply: TypeAlias = Callable[[ScalarKind, Facets, Any], Facets]
_APPLY: Mapping[type, _Apply] = {
    Gt: _lower(inclusive=False),
    Ge: _lower(inclusive=True),
    Lt: _upper(inclusive=False),
    Le: _upper(inclusive=True),
    MinLen: _least,
    MaxLen: _most,
    MultipleOf: _step,
    Pattern: _pattern,
}
