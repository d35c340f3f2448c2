"""Keys below ``approval:`` of a listener or a tool."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

from pydantic import BeforeValidator, Field, TypeAdapter, model_validator

from agentserver.config.keys.fields import Retention, Strict
from agentserver.core.blueprint import ApprovalRule
from agentserver.payload.conditions import ORDERINGS, FieldCondition, SumBound

if TYPE_CHECKING:
    from collections.abc import Mapping

_Bound: TypeAlias = int | float | str
_Operands = Annotated[list[bool | int | float | str], Field(min_length=1, max_length=1000)]
_FieldName = Annotated[str, Field(min_length=1, max_length=300)]


def _build_one_unit(value: dict[str, str]) -> dict[str, str]:
    if len(value) != 1:
        raise ValueError("names one field and its value, such as {currency: EUR}")
    return value


class SumEntry(Strict):
    """Bound of the sum of a field's values over all messages of one principal to the listener."""

    over: Annotated[int | float | str, Field(description="The sum is greater, this message included.")]
    within: Retention = Field(description='The time that is added up, such as "24h"; at most the retention.')

    def make_bound(self) -> SumBound:
        """Make the bound. Raises ValueError."""
        try:
            over = Decimal(str(self.over))
        except ArithmeticError:
            over = Decimal("nan")
        if not over.is_finite() or over < 0:
            raise ValueError(f"sum.over: {self.over} is no amount, such as 500")
        return SumBound(over, self.within)


class ConditionEntry(Strict):
    """Condition on one field. All its comparisons have to hold; a missing or unreadable value meets it too."""

    over: _Bound | None = Field(default=None, description="The value is greater.")
    at_least: _Bound | None = Field(default=None, description="The value is equal or greater.")
    under: _Bound | None = Field(default=None, description="The value is less.")
    at_most: _Bound | None = Field(default=None, description="The value is equal or less.")
    among: _Operands | None = Field(
        default=None, alias="in", description="The value is one of these; texts without regard to case."
    )
    not_in: _Operands | None = Field(default=None, description="The value is none of these.")
    unit: Annotated[dict[_FieldName, str], BeforeValidator(_build_one_unit)] | None = Field(
        default=None,
        description="The field next to it that has the unit, and the unit in which the bounds are, such as "
        "{currency: EUR}. A value in another unit meets the condition.",
    )

    total: SumEntry | None = Field(
        default=None,
        alias="sum",
        description="A further condition besides the comparisons: the values of all messages of the principal to "
        "this listener, over all conversations, add up to more.",
    )

    @model_validator(mode="after")
    def _compares(self) -> ConditionEntry:
        if not self.make_conditions(""):
            raise ValueError("compares nothing: set over, at_least, under, at_most, in, not_in or sum")
        return self

    def make_conditions(self, path: str) -> tuple[FieldCondition, ...]:
        """Make the conditions on the field at a path: that of the comparisons, and that of the sum."""
        compared = self._make_comparison(path)
        some = (compared,) if compared.bounds or compared.among or compared.outside else ()
        if self.total is None:
            return some
        return (*some, FieldCondition(path, unit=compared.unit, total=self.total.make_bound()))

    def _make_comparison(self, path: str) -> FieldCondition:
        bounds = tuple((each, value) for each in ORDERINGS if (value := getattr(self, each)) is not None)
        unit = next(iter(self.unit.items())) if self.unit else None
        return FieldCondition(path, bounds, tuple(self.among or ()), tuple(self.not_in or ()), unit)


class ApprovalEntry(Strict):
    """Messages that wait until a person approves them."""

    when: dict[_FieldName, ConditionEntry] | None = Field(
        default=None,
        min_length=1,
        max_length=100,
        description="Conditions on fields of the payload, by path (amount, or lines.amount). A message waits if one of "
        "them holds, and without when: in any case.",
    )
    approvers: Literal["anyone", "others"] | None = Field(
        default=None,
        description="Who may approve: anyone, or others, which excludes the principal who opened the conversation. "
        "Defaults to limits.approvers.",
    )
    within: Retention | None = Field(
        default=None, description='How long a message waits, such as "4h". Defaults to limits.approval.'
    )
    otherwise: Literal["deny"] = Field(
        default="deny", description="What happens without an answer in time: the message is denied."
    )

    def make_rule(self) -> ApprovalRule:
        """Make the rule for the core."""
        conditions = tuple(
            each for path, one in (self.when or {}).items() for each in one.make_conditions(path)
        )
        return ApprovalRule(conditions, self.approvers, self.within)


DenialsKey: TypeAlias = Annotated[dict[_FieldName, ConditionEntry], Field(max_length=100)]

_DENIALS: Final[TypeAdapter[dict[str, ConditionEntry]]] = TypeAdapter(DenialsKey)


def read_denials(deny: Mapping[str, ConditionEntry | Mapping[str, Any]]) -> tuple[FieldCondition, ...]:
    """Make the conditions of messages that are denied. Raises pydantic.ValidationError."""
    entries = _DENIALS.validate_python(deny)
    return tuple(each for path, one in entries.items() for each in one.make_conditions(path))


def read_rule(value: bool | Mapping[str, Any]) -> ApprovalRule | None:  # noqa: FBT001 - a value of the YAML
    """Read the mapping under ``approval:``; True means ``required``. Raises pydantic.ValidationError."""
    return ApprovalEntry.model_validate({} if value is True else value).make_rule() if value else None


def _expand_required(value: Any) -> Any:
    """Expand the word ``required`` to the defaults."""
    if value is None:
        raise ValueError("must not be empty: remove the key, or set a value")
    if value == "required":
        return {}
    if not isinstance(value, dict):
        raise ValueError('is "required", or a mapping with when, approvers, within and otherwise')  # noqa: TRY004
    return value


ApprovalKey: TypeAlias = Annotated[
    ApprovalEntry | None,
    BeforeValidator(_expand_required, json_schema_input_type=Literal["required"] | ApprovalEntry),
    Field(title="Approval"),
]
