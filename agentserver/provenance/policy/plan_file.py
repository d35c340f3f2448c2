"""Plan reader for YAML, used by tests, scripted planners and people who plan by hand.

Parses text only and refuses every key that it does not use.

A plan is a list of steps. A step is a mapping with ``sink``, ``arguments`` by name, and ``times``. An argument is

    a text or a number               that value
    a list                           any of these
    any                              any value
    said                             a value of the principal's own words
    {is: any}                        that very word
    {field: email, of: contacts}     a leaf at that field of that listener's output; a number means a step
    {in: text, of: inbox}            a token in the text at that field
    {field: ..., where: {name: Kim}} only of a record whose ``name`` is that; ``{has: ...}`` asks for words in it
    {after: 2 days, from: said}      so much later; with a minus before, so much earlier
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from agentserver.provenance.plans.arguments import (
    DEPTH,
    AllowedStep,
    AnyValue,
    Condition,
    DateOffset,
    FieldOf,
    Kind,
    Literal,
    OneOf,
    RequestedValue,
)
from agentserver.provenance.plans.moments import parse_duration
from agentserver.provenance.policy.file import PolicyError, read_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agentserver.provenance.policy.file import YamlDocument

    Loc = tuple[str | int, ...]

__all__ = ["PlanError", "read_plan"]

_STEP: Final = ("sink", "arguments", "times")
_FORMS: Final = {
    "is": ("is",),
    "field": ("field", "of", "where"),
    "in": ("in", "of", "where"),
    "after": ("after", "from"),
}
"""Keys of each form of argument, by the key that identifies it."""
_HELP: Final = "an argument is a value, a list, any, said, or has one of the keys is, field, in, after"
_DIGITS: Final = 9
"""Maximum digits of a number in a plan."""


class PlanError(PolicyError):
    """Raised for a plan that cannot be read. The text names file, line and the correction."""


def read_plan(text: str, name: str = "plan") -> tuple[AllowedStep, ...]:
    """Read the steps in ``text``. ``name`` is the file's name for error messages.

    Raises:
        PlanError: the text is no YAML list of steps, or has an entry that would otherwise be ignored.
    """
    try:
        written = read_yaml(text, name)
    except PolicyError as error:
        raise PlanError(str(error)) from None
    steps = written.values
    if not isinstance(steps, list):
        raise PlanError(f"{name}:1: a plan is a list of steps: begin each with '- sink: NAME'")
    reader = _Reader(name, written, len(steps))
    return tuple(reader.step(value, (number,)) for number, value in enumerate(steps))


class _Reader:
    """Reader that turns the values of one document into steps."""

    def __init__(self, name: str, written: YamlDocument, count: int) -> None:
        self._name, self._written, self._count = name, written, count

    def step(self, value: Any, loc: Loc) -> AllowedStep:
        said = self._mapping(value, loc, _STEP, "a step is a mapping with 'sink'")
        sink = self._text(said.get("sink"), (*loc, "sink"), "a step has a 'sink', the name of a listener")
        given = said.get("arguments") or {}
        at = (*loc, "arguments")
        if not isinstance(given, dict):
            raise self._error(at, "'arguments' is a mapping of names to values")
        kinds = tuple((name, self.kind(inner, (*at, name), 0)) for name, inner in given.items())
        return AllowedStep(sink, kinds, self._times(said.get("times"), (*loc, "times")))

    def kind(self, value: Any, loc: Loc, depth: int) -> Kind:
        if depth > DEPTH:
            raise self._error(loc, f"more than {DEPTH} kinds inside one another")
        match value:
            case "any":
                return AnyValue()
            case "said":
                return RequestedValue()
            case str():
                return Literal(value)
            case list():
                every = (self.kind(inner, (*loc, at), depth + 1) for at, inner in enumerate(value))
                return OneOf(tuple(every))
            case dict():
                return self._form(value, loc, depth)
        raise self._error(loc, f"nothing stands here; {_HELP}")

    def _form(self, value: dict[str, Any], loc: Loc, depth: int) -> Kind:
        form = next((key for key in _FORMS if key in value), None)
        if form is None:
            every = sorted({key for keys in _FORMS.values() for key in keys})
            raise self._error(
                (*loc, next(iter(value), "")), f"{_describe_unknown(next(iter(value), ''), every)}; {_HELP}"
            )
        self._mapping(value, loc, _FORMS[form], "")
        if form == "is":
            return Literal(self._text(value["is"], (*loc, "is"), "'is' is a text"))
        if form == "after":
            length = parse_duration(self._text(value["after"], (*loc, "after"), "'after' is a duration"))
            if length is None:
                raise self._error(
                    (*loc, "after"), f"'{value['after']}' is no duration; write '2 days' or 'PT90M'"
                )
            if "from" not in value:
                raise self._error(loc, "'after' needs 'from', the date that it counts from")
            return DateOffset(self.kind(value["from"], (*loc, "from"), depth + 1), length)
        return self._field(value, loc, form, depth)

    def _field(self, value: dict[str, Any], loc: Loc, form: str, depth: int) -> FieldOf:
        path = self._text(value[form], (*loc, form), f"'{form}' is the path of a field")
        of = self._text(
            value.get("of"), (*loc, "of"), f"'{form}' needs 'of', a listener or the number of a step"
        )
        step = _read_whole(of)
        if of.isdigit() and not 0 < step <= self._count:
            raise self._error((*loc, "of"), f"there is no step {of}; the plan has steps 1 to {self._count}")
        where = value.get("where") or {}
        at = (*loc, "where")
        if not isinstance(where, dict):
            raise self._error(at, "'where' is a mapping of fields to values")
        conditions = tuple(self._condition(name, inner, (*at, name), depth) for name, inner in where.items())
        return FieldOf(path, "" if step else of, step, conditions, within=form == "in")

    def _condition(self, path: str, value: Any, loc: Loc, depth: int) -> Condition:
        within = isinstance(value, dict) and "has" in value
        if within:
            self._mapping(value, loc, ("has",), "")
            value, loc = value["has"], (*loc, "has")
        kind = self.kind(value, loc, depth + 1)
        if within and not _is_literal(kind):
            raise self._error(loc, "'has' is a text, or a list of texts")
        return Condition(path, kind, within)

    def _times(self, value: Any, loc: Loc) -> int | None:
        if value is None:
            return None
        times = _read_whole(value) if isinstance(value, str) else 0
        if not times:
            raise self._error(loc, f"'times' is a positive whole number, not '{value}'")
        return times

    def _mapping(self, value: Any, loc: Loc, keys: Iterable[str], told: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self._error(loc, told)
        strange = next((key for key in value if key not in keys), None)
        if strange is not None:
            raise self._error((*loc, strange), _describe_unknown(strange, keys))
        return value

    def _text(self, value: Any, loc: Loc, told: str) -> str:
        if not isinstance(value, str) or not value.strip():
            raise self._error(loc, told)
        return value

    def _error(self, loc: Loc, told: str) -> PlanError:
        return PlanError(f"{self._name}:{self._written.line_of(loc)}: {told}")


def _read_whole(text: str) -> int:
    """Read a number of plain digits; 0 for any other text, and for too many digits."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else 0


def _is_literal(kind: Kind) -> bool:
    every = kind.kinds if isinstance(kind, OneOf) else (kind,)
    return all(isinstance(each, Literal) for each in every)


def _describe_unknown(key: str, known: Iterable[str]) -> str:
    near = get_close_matches(key, known := list(known), 1)
    correction = f"did you mean '{near[0]}'?" if near else f"known are {', '.join(known)}"
    return f"unknown key '{key}'; {correction}"
