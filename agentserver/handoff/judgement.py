"""The judgement of a handoff, and the text that its target is given.

Owns the order of the questions and the verdict. Pure: the time comes in, nothing is recorded here. The
steering text and the sender's words leave as separate values and are never joined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from agentserver.handoff.frame import DataFrame
from agentserver.handoff.intents import FREE
from agentserver.handoff.parameters import WrittenValue
from agentserver.handoff.requests import HandoffRequest, RequestRefusal
from agentserver.handoff.scrub import Scrub, sanitize

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from agentserver.handoff.intents import Checked, Vocabulary

__all__ = ["Approved", "Circumstances", "Rejected", "judge"]


class Facts(NamedTuple):
    """The record of an attempt: the parts that were validated, and of the rest that it was there.

    Args:
        source: the sender, as the system knows it.
        request: the attempt.
        target_known, intent_known, params_known: whether the names are the vocabulary's and may be written down.
        sanitized: characters of the free text that were left; None when it was not looked at.
    """

    source: str
    request: HandoffRequest
    target_known: bool = False
    intent_known: bool = False
    params_known: bool = False
    sanitized: int | None = None


class Rejected(NamedTuple):
    """The handoff does not happen. The reason is for the record; a sender learns only that it was refused."""

    reason: RequestRefusal
    facts: Facts


class Approved(NamedTuple):
    """The handoff may happen.

    Args:
        target: the listener.
        intent: the intent's name.
        params: the parameters as text, in the order of their declaration.
        steering: what the target is told, rendered from the author's template.
        data: the sender's own words, for a data frame; empty when it had none.
        allow_peers: the only peers in force below this handoff; None for no narrowing.
    """

    target: str
    intent: str
    params: tuple[tuple[str, str], ...]
    steering: str
    data: tuple[DataFrame, ...]
    allow_peers: frozenset[str] | None
    facts: Facts


Verdict: TypeAlias = Approved | Rejected


class Circumstances(NamedTuple):
    """The circumstances of a judgement, beside vocabulary and request.

    Args:
        source: the sender, as the system knows it.
        at: the time, ISO 8601 with zone.
        peers: whom the sender may reach; None where no peers are declared, outside of a pump.
        scrub: whether instruction-like lines are taken out of the sender's words.
    """

    source: str
    at: str
    peers: AbstractSet[str] | None = None
    scrub: Scrub = Scrub.ON


def judge(vocabulary: Vocabulary, request: HandoffRequest, around: Circumstances) -> Verdict:
    """Decide about one request. The same arguments give the same verdict."""
    request = request._replace(note=_note(vocabulary, request))
    reason = _unreadable(request) or _target(vocabulary, request, around)
    if reason is not None:
        return Rejected(reason, Facts(around.source, request))
    if request.fault is RequestRefusal.LEGACY_PAYLOAD and vocabulary.legacy is not None:
        request = request._replace(intent=vocabulary.legacy, fault=None)
    if request.fault is not None:
        return Rejected(request.fault, Facts(around.source, request, target_known=True))
    checked = vocabulary.intents.get(request.intent or "")
    if checked is None:
        return Rejected(RequestRefusal.UNKNOWN_INTENT, Facts(around.source, request, target_known=True))
    return _within(checked, request, around)


def _note(vocabulary: Vocabulary, request: HandoffRequest) -> str:
    """The free text among the parameters: of an unknown intent what has no name, of a known one what it calls so."""
    checked = vocabulary.intents.get(request.intent or "")
    note = dict(request.params).get("" if checked is None else checked.intent.note, "")
    note = note.text if isinstance(note, WrittenValue) else note
    return note if isinstance(note, str) else ""


def _unreadable(request: HandoffRequest) -> RequestRefusal | None:
    """Refusals of what has no target to be judged by."""
    return request.fault if request.fault in _EARLY else None


_EARLY: Final = frozenset(
    {
        RequestRefusal.INVALID_JSON,
        RequestRefusal.OVER_BOUND,
        RequestRefusal.NESTED_REQUEST,
        RequestRefusal.FORGED_TASK,
    }
)


def _target(vocabulary: Vocabulary, request: HandoffRequest, around: Circumstances) -> RequestRefusal | None:
    if request.target is None or request.target not in vocabulary.targets:
        return RequestRefusal.TARGET_NOT_ALLOWLISTED
    if around.peers is not None and request.target not in around.peers:
        return RequestRefusal.NOT_A_PEER
    return None


def _within(checked: Checked, request: HandoffRequest, around: Circumstances) -> Verdict:
    """Decide about a request whose target and intent are known."""
    intent, target = checked.intent, request.target
    if target not in intent.targets:
        return _known(RequestRefusal.TARGET_NOT_OF_INTENT, request, around)
    params = _params(checked, request)
    if isinstance(params, RequestRefusal):
        return _known(params, request, around)
    note = dict(request.params).get(intent.note, "") if intent.note else ""
    texts = (request.event, note.text if isinstance(note, WrittenValue) else note)
    if not isinstance(texts[1], str):
        return _known(RequestRefusal.PARAMS_SCHEMA, request, around)
    return _told(checked, request, around, (texts[0], texts[1]), params)


def _known(reason: RequestRefusal, request: HandoffRequest, around: Circumstances) -> Rejected:
    """The refusal of a request whose names are the vocabulary's and whose values are not."""
    return Rejected(reason, Facts(around.source, request, target_known=True, intent_known=True))


def _told(
    checked: Checked,
    request: HandoffRequest,
    around: Circumstances,
    texts: tuple[str, str],
    params: tuple[tuple[str, str], ...],
) -> Verdict:
    """The last bounds, and what the target is told; ``texts`` are event and note."""
    event, note = (sanitize(text, FREE, around.scrub) if len(text) <= FREE else "" for text in texts)
    facts = Facts(around.source, request, True, True, True, len(event) + len(note))
    if len(texts[0]) > checked.intent.event_most or len(texts[1]) > checked.intent.note_most:
        return Rejected(RequestRefusal.OVER_BOUND, facts)
    if not all(checked.slugs[name].within(value) for name, value in params if name in checked.slugs):
        return Rejected(RequestRefusal.WORD_BUDGET, facts)
    data = tuple(DataFrame(around.source, around.at, text) for text in (event, note) if text)
    steering = checked.template.render(dict(params))
    assert request.target is not None
    intent = checked.intent
    return Approved(request.target, intent.name, params, steering, data, intent.allow_peers, facts)


def _params(checked: Checked, request: HandoffRequest) -> tuple[tuple[str, str], ...] | RequestRefusal:
    """The parameters as text, each of its type; what is interpolated is looked at again, by character."""
    intent = checked.intent
    given = dict(request.params)
    if not checked.names.issuperset(given):
        return RequestRefusal.PARAMS_SCHEMA
    texts: list[tuple[str, str]] = []
    for parameter in intent.parameters:
        if parameter.name not in given:
            if parameter.required:
                return RequestRefusal.PARAMS_SCHEMA
            continue
        text = parameter.text(given[parameter.name])
        if text is None or not checked.judge.accepts(parameter.name, text):
            return RequestRefusal.PARAMS_SCHEMA
        if parameter.name in checked.slugs and not checked.slugs[parameter.name].spelled(text):
            return RequestRefusal.PARAMS_SCHEMA
        texts.append((parameter.name, text))
    return tuple(texts)
