"""Plan of the calls that a conversation may make, fixed before untrusted data is seen.

Decides whether a call fits the plan, and which of its arguments the plan sanctions. Only a planner makes plans, never
the wording of a request alone, and a plan is extended only after the principal says more.

The YAML reader parses text only and refuses every key that it does not use. It serves tests, scripted planners and
people who plan by hand. A plan is a list of steps. A step is a mapping with ``sink``, ``arguments`` by name, and
``times``. An argument is

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

from dataclasses import dataclass, replace
from difflib import get_close_matches
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from agentserver.provenance.evidence.labels import Role
from agentserver.provenance.evidence.leaves import format_text
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
    describe_kind,
    dump_step,
    load_step,
    shift_step,
)
from agentserver.provenance.plans.grants import PlanGrounds, find_kind
from agentserver.provenance.plans.moments import parse_duration
from agentserver.provenance.policy.file import PolicyError, read_yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from agentserver.provenance.evidence.labels import Call, Leaf
    from agentserver.provenance.plans.grants import PlanLedger
    from agentserver.provenance.policy.file import YamlDocument

    Loc = tuple[str | int, ...]

__all__ = ["PlanError", "read_plan"]

_SAID: Final = (Role.PAYLOAD, Role.INERT)
"""Roles of arguments that a step need not name: they are content, which lineage judges."""

_DECIDES: Final[Mapping[Role | None, str]] = MappingProxyType(
    {
        Role.DESTINATION: ", which says who receives",
        Role.SELECTOR: ", which says what to act on",
        Role.QUANTITY: ", which says how much",
        Role.TIME: ", which says when",
        Role.OPTION: ", which is one of the listed values",
    }
)
"""Description of an argument's role in a call."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Calls that a conversation may make, planned before anything untrusted was seen.

    ``queries`` counts the principal's messages that the steps were made from, ``used`` the calls of each bounded step.
    """

    steps: tuple[AllowedStep, ...] = ()
    queries: int = 0
    used: tuple[tuple[int, int], ...] = ()

    def adopt(self, steps: tuple[AllowedStep, ...], queries: int) -> Plan | None:
        """Add a planner's steps after new words of the principal; ``None`` if there are no new words.

        Step numbers of the later plan are shifted by the number of earlier steps.
        """
        if queries <= self.queries:
            return None
        shifted = (shift_step(step, len(self.steps)) for step in steps)
        return replace(self, steps=(*self.steps, *shifted), queries=queries)

    def find_objection(
        self, call: Call, ledger: PlanLedger, role: Callable[[Leaf], Role] | None = None
    ) -> str | None:
        """Find the reason why a call does not fit the plan, or ``None``.

        Args:
            call: the call of a sink.
            ledger: the trusted words and records, for the steps' relations.
            role: returns the role of an argument. Arguments that a step does not name are refused, unless their role is
                payload or inert; without this function all of them are refused.
        """
        grounds = self._build_grounds(ledger)
        spent, reason = "", ""
        for number, step in self._list_steps(call):
            misfit = next(_find_misfits(grounds, step, call, role), None)
            if misfit is None and self._has_calls_left(number, step):
                return None
            if misfit is None:
                spent = f"the plan allows it {step.times} times, and that is used up"
            reason = reason or misfit or ""
        return spent or reason or "the plan has no such step"

    def warrants(self, ledger: PlanLedger, call: Call, leaf: Leaf) -> str | None:
        """Explain why the plan sanctions an argument of a call; ``None`` if it does not.

        It does if the whole call fits a step that names the argument by a literal, the request's words or a leaf. An
        argument that the step leaves open to any value is not sanctioned.
        """
        grounds = self._build_grounds(ledger)
        for _, step in self._list_steps(call):
            kind = find_kind(step, leaf.path)
            found = None if kind is None else grounds.match_list(kind, leaf.value)
            peers = (other for other in _list_given_arguments(call) if other is not leaf)
            fits = found is not None and all(grounds.fits(step, other) for other in peers)
            if fits and found is not None and not isinstance(found, AnyValue):
                return describe_kind(found)
        return None

    def count_call(self, call: Call, ledger: PlanLedger) -> Plan:
        """Count a call against its step, if the step's number of calls is bounded."""
        grounds = self._build_grounds(ledger)
        fitting = [
            pair
            for pair in self._list_steps(call)
            if all(grounds.fits(pair[1], leaf) for leaf in _list_given_arguments(call))
        ]
        if not fitting or any(step.times is None for _, step in fitting):
            return self
        used = dict(self.used)
        number = next(
            (number for number, step in fitting if self._has_calls_left(number, step)), fitting[0][0]
        )
        return replace(self, used=tuple(sorted({**used, number: used.get(number, 0) + 1}.items())))

    def find_answered(self, ledger: PlanLedger, source: str, arguments: tuple[Leaf, ...]) -> tuple[int, ...]:
        """Find the numbers, from 1, of the steps that a call fits, so that its answer belongs to them."""
        return self._build_grounds(ledger).list_matching_steps(source, arguments)

    def _build_grounds(self, ledger: PlanLedger) -> PlanGrounds:
        return PlanGrounds(ledger.asked, ledger.recorded, self.steps)

    def _list_steps(self, call: Call) -> Iterator[tuple[int, AllowedStep]]:
        """List the steps for the sink of a call, with their numbers."""
        return ((number, step) for number, step in enumerate(self.steps, 1) if step.sink == call.sink)

    def _has_calls_left(self, number: int, step: AllowedStep) -> bool:
        return step.times is None or dict(self.used).get(number, 0) < step.times


def dump_plan(plan: Plan | None) -> dict[str, Any]:
    """Serialise a plan, or its absence, as plain data."""
    known = plan or Plan()
    return {
        "steps": list(map(dump_step, known.steps)),
        "planned": plan is not None,
        "plan": [known.queries, [list(pair) for pair in known.used]],
    }


def load_plan(data: Mapping[str, Any]) -> Plan | None:
    """Restore the plan that ``dump_plan`` serialised."""
    if not data["planned"]:
        return None
    queries, used = data["plan"]
    return Plan(
        tuple(map(load_step, data["steps"])), queries, tuple((number, count) for number, count in used)
    )


def _list_given_arguments(call: Call) -> Iterator[Leaf]:
    """List the arguments that are not blank."""
    return (leaf for leaf in call.arguments if format_text(leaf.value).strip())


def _find_misfits(
    grounds: PlanGrounds, step: AllowedStep, call: Call, role: Callable[[Leaf], Role] | None
) -> Iterator[str]:
    """Find the reasons why a call does not fit a step."""
    for leaf in _list_given_arguments(call):
        kind = find_kind(step, leaf.path)
        if kind is None:
            decides = None if role is None else role(leaf)
            if decides not in _SAID:
                yield f"the plan names no '{leaf.path}'{_DECIDES.get(decides, '')}"
        elif grounds.match_list(kind, leaf.value) is None:
            yield f"the plan fixes '{leaf.path}': {describe_kind(kind)}"


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
        document = read_yaml(text, name)
    except PolicyError as error:
        raise PlanError(str(error)) from None
    steps = document.values
    if not isinstance(steps, list):
        raise PlanError(f"{name}:1: a plan is a list of steps: begin each with '- sink: NAME'")
    reader = _Reader(name, document, len(steps))
    return tuple(reader.read_step(value, (number,)) for number, value in enumerate(steps))


class _Reader:
    """Reader that turns the values of one document into steps."""

    def __init__(self, name: str, document: YamlDocument, count: int) -> None:
        self._name, self._document, self._count = name, document, count

    def read_step(self, value: Any, loc: Loc) -> AllowedStep:
        fields = self._read_mapping(value, loc, _STEP, "a step is a mapping with 'sink'")
        sink = self._read_text(
            fields.get("sink"), (*loc, "sink"), "a step has a 'sink', the name of a listener"
        )
        arguments = fields.get("arguments") or {}
        at = (*loc, "arguments")
        if not isinstance(arguments, dict):
            raise self._make_error(at, "'arguments' is a mapping of names to values")
        kinds = tuple((name, self.read_kind(inner, (*at, name), 0)) for name, inner in arguments.items())
        return AllowedStep(sink, kinds, self._read_times(fields.get("times"), (*loc, "times")))

    def read_kind(self, value: Any, loc: Loc, depth: int) -> Kind:
        if depth > DEPTH:
            raise self._make_error(loc, f"more than {DEPTH} kinds inside one another")
        match value:
            case "any":
                return AnyValue()
            case "said":
                return RequestedValue()
            case str():
                return Literal(value)
            case list():
                kinds = (self.read_kind(inner, (*loc, at), depth + 1) for at, inner in enumerate(value))
                return OneOf(tuple(kinds))
            case dict():
                return self._read_form(value, loc, depth)
        raise self._make_error(loc, f"nothing stands here; {_HELP}")

    def _read_form(self, value: dict[str, Any], loc: Loc, depth: int) -> Kind:
        form = next((key for key in _FORMS if key in value), None)
        if form is None:
            known = sorted({key for keys in _FORMS.values() for key in keys})
            raise self._make_error(
                (*loc, next(iter(value), "")), f"{_describe_unknown(next(iter(value), ''), known)}; {_HELP}"
            )
        self._read_mapping(value, loc, _FORMS[form], "")
        if form == "is":
            return Literal(self._read_text(value["is"], (*loc, "is"), "'is' is a text"))
        if form == "after":
            length = parse_duration(self._read_text(value["after"], (*loc, "after"), "'after' is a duration"))
            if length is None:
                raise self._make_error(
                    (*loc, "after"), f"'{value['after']}' is no duration; write '2 days' or 'PT90M'"
                )
            if "from" not in value:
                raise self._make_error(loc, "'after' needs 'from', the date that it counts from")
            return DateOffset(self.read_kind(value["from"], (*loc, "from"), depth + 1), length)
        return self._read_field(value, loc, form, depth)

    def _read_field(self, value: dict[str, Any], loc: Loc, form: str, depth: int) -> FieldOf:
        path = self._read_text(value[form], (*loc, form), f"'{form}' is the path of a field")
        of = self._read_text(
            value.get("of"), (*loc, "of"), f"'{form}' needs 'of', a listener or the number of a step"
        )
        step = _read_whole(of)
        if of.isdigit() and not 0 < step <= self._count:
            raise self._make_error(
                (*loc, "of"), f"there is no step {of}; the plan has steps 1 to {self._count}"
            )
        selected_by = value.get("where") or {}
        at = (*loc, "where")
        if not isinstance(selected_by, dict):
            raise self._make_error(at, "'where' is a mapping of fields to values")
        conditions = tuple(
            self._read_condition(name, inner, (*at, name), depth) for name, inner in selected_by.items()
        )
        return FieldOf(path, "" if step else of, step, conditions, within=form == "in")

    def _read_condition(self, path: str, value: Any, loc: Loc, depth: int) -> Condition:
        within = isinstance(value, dict) and "has" in value
        if within:
            self._read_mapping(value, loc, ("has",), "")
            value, loc = value["has"], (*loc, "has")
        kind = self.read_kind(value, loc, depth + 1)
        if within and not _is_literal(kind):
            raise self._make_error(loc, "'has' is a text, or a list of texts")
        return Condition(path, kind, within)

    def _read_times(self, value: Any, loc: Loc) -> int | None:
        if value is None:
            return None
        times = _read_whole(value) if isinstance(value, str) else 0
        if not times:
            raise self._make_error(loc, f"'times' is a positive whole number, not '{value}'")
        return times

    def _read_mapping(self, value: Any, loc: Loc, keys: Iterable[str], message: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self._make_error(loc, message)
        strange = next((key for key in value if key not in keys), None)
        if strange is not None:
            raise self._make_error((*loc, strange), _describe_unknown(strange, keys))
        return value

    def _read_text(self, value: Any, loc: Loc, message: str) -> str:
        if not isinstance(value, str) or not value.strip():
            raise self._make_error(loc, message)
        return value

    def _make_error(self, loc: Loc, message: str) -> PlanError:
        return PlanError(f"{self._name}:{self._document.find_line(loc)}: {message}")


def _read_whole(text: str) -> int:
    """Read a number of plain digits; 0 for any other text, and for too many digits."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else 0


def _is_literal(kind: Kind) -> bool:
    kinds = kind.kinds if isinstance(kind, OneOf) else (kind,)
    return all(isinstance(each, Literal) for each in kinds)


def _describe_unknown(key: str, known: Iterable[str]) -> str:
    near = get_close_matches(key, known := list(known), 1)
    correction = f"did you mean '{near[0]}'?" if near else f"known are {', '.join(known)}"
    return f"unknown key '{key}'; {correction}"
