"""Details as plain values, and back: for journals by position, for programs by name.

Owns both forms. What is kept of a detail decodes to an equal one. Refuses to put a detail into words; it asks for them
only to know that there are any.
"""

from __future__ import annotations

from types import MappingProxyType, UnionType
from typing import TYPE_CHECKING, Any, Final, Union, get_args, get_origin, get_type_hints

from agentserver.core.records.details import (
    NAMES,
    Answered,
    Charge,
    Corrections,
    Failure,
    Ground,
    Grounds,
    GuardAsks,
    GuardNote,
    GuardQuestions,
    HandoffAttempt,
    KeptText,
    More,
    RedrivenFrom,
    Repaired,
    Unanswered,
    Unknown,
    WhyEnded,
)
from agentserver.core.records.wording import WORDING
from agentserver.findings import Delegation, Exposed, FindingFacts, Findings, RecordText, Trail, TrailHop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from agentserver.core.records.details import Detail


def dump(detail: Detail | None) -> Any:
    """The plain form, for JSON: a list that begins with the name of the kind; an empty text for no detail."""
    if detail is None:
        return ""
    if isinstance(detail, GuardQuestions):
        return ["questions", [[one.guard, dump(one.why)] for one in detail.asked], detail.waits]
    return [NAMES[type(detail)], *detail]


def load(plain: Any) -> Detail | None:
    """The detail of which ``dump`` gave the plain form.

    Raises ValueError, TypeError, IndexError or KeyError for anything else: what is loaded has the types of its kind,
    and there are words for it.
    """
    if plain == "":
        return None
    kind, *fields = plain
    detail = _LOADED[kind](*fields)
    if not _fits(detail, type(detail)):
        raise ValueError(f"a detail of the kind {kind} with a value of another type")
    WORDING.lines(detail)
    return detail


def _fits(value: Any, hint: Any) -> bool:
    """True when a value is of a type: one of a few plain ones, a tuple of one, a choice of several, or of a detail."""
    if get_origin(hint) in _CHOICES:
        return any(_fits(value, each) for each in get_args(hint))
    if get_origin(hint) is tuple:
        return isinstance(value, tuple) and all(_fits(each, get_args(hint)[0]) for each in value)
    if not isinstance(value, hint):
        return False
    hints = get_type_hints(hint) if hasattr(hint, "_fields") else {}
    return all(_fits(getattr(value, name), each) for name, each in hints.items())


_CHOICES: Final = (Union, UnionType)


def members(detail: HandoffAttempt) -> dict[str, Any]:
    """The attempt by the keys of the record of handoffs."""
    found: dict[str, Any] = fields(detail)
    del found["kind"]
    return found


def fields(detail: Detail | None) -> Any:
    """The detail for programs: its kind and its fields, all by name; None for none."""
    return None if detail is None else {"kind": NAMES[type(detail)], **_named(detail)}


def _named(value: Any) -> Any:
    if isinstance(value, GuardAsks):
        return {"guard": value.guard, "why": fields(value.why)}
    if isinstance(value, tuple):
        if hasattr(value, "_fields"):
            return {name: _named(each) for name, each in zip(value._fields, value, strict=True)}
        return [_named(each) for each in value]
    return value


def _findings(sink: str, step: int, mode: str, decision: str, found: Iterable[Any], *rest: Any) -> Findings:
    read = Findings(sink, step, mode, decision, tuple([_finding(*one) for one in found]), *rest)
    exposed = None if read.exposed is None else Exposed(*read.exposed)
    return read._replace(exposed=exposed, delegation=read.delegation and _delegation(*read.delegation))


def _delegation(source: str, step: int, record: str, texts: Iterable[Any]) -> Delegation:
    read = [RecordText(field, text, tuple(arguments)) for field, text, arguments in texts]
    return Delegation(source, step, record, tuple(read))


def _finding(*fields: Any) -> FindingFacts:
    one = FindingFacts(*fields)
    return one if one.trail is None else one._replace(trail=_trail(*one.trail))


def _trail(*fields: Any) -> Trail:
    trail = Trail(*fields)
    return trail._replace(hops=tuple([TrailHop(*hop) for hop in trail.hops]))


def _questions(asked: Iterable[Any], *rest: Any) -> GuardQuestions:
    return GuardQuestions(tuple([GuardAsks(guard, _why(why)) for guard, why in asked]), *rest)


def _why(plain: Any) -> Detail:
    return load(plain) or KeptText("")


def attempt(*members: Any) -> HandoffAttempt:
    """An attempt by the values of the record of handoffs, in its order. Raises LookupError or TypeError for no such."""
    timestamp, source, target, intent, result, reason, keys, *sizes = members
    told = [key if type(key) is str else _name(key) for key in keys]
    target = target if type(target) is str else _name(target)
    intent = intent if type(intent) is str else _name(intent)
    return HandoffAttempt(timestamp, source, target, intent, result, reason, tuple(told), *sizes)


def _name(plain: Any) -> Any:
    """A name; one that was not validated, as ``dump`` or the record of handoffs has it."""
    if isinstance(plain, dict):
        return More(**plain) if "more" in plain else Unknown(**plain)
    if isinstance(plain, list):
        return More(*plain) if len(plain) == 1 else Unknown(*plain)
    return plain


_LOADED: Final[Mapping[str, Callable[..., Detail]]] = MappingProxyType(
    {
        "text": KeptText,
        "note": GuardNote,
        "failure": Failure,
        "grounds": lambda ground, names: Grounds(Ground(ground), tuple(names)),
        "corrections": lambda faults: Corrections(tuple(faults)),
        "repaired": Repaired,
        "questions": _questions,
        "answered": Answered,
        "unanswered": Unanswered,
        "ended": WhyEnded,
        "dead letter": RedrivenFrom,
        "charge": Charge,
        "findings": _findings,
        "handoff": attempt,
    }
)
