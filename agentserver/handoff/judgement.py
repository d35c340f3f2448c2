"""Whether a handoff may happen, and what the target is told.

Owns the order of the questions and the verdict. Pure: the time comes in, nothing is recorded here. The
steering text and the sender's words leave as separate values and are never joined.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from agentserver.handoff.frame import DataFrame
from agentserver.handoff.intents import EVENT
from agentserver.handoff.requests import Reason, Request
from agentserver.handoff.scrub import Scrub, sanitize

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from agentserver.handoff.intents import Checked, Vocabulary


@dataclass(frozen=True, slots=True)
class Facts:
    """What is put on record about an attempt: what was validated, and of the rest that it was there.

    Args:
        source: the sender, as the system knows it.
        request: the attempt.
        target_known, intent_known, params_known: whether the names are those of the vocabulary, so that they
        may be
            written down.
        sanitized: characters of the free text that were left; None when it was not looked at.
    """

    source: str
    request: Request
    target_known: bool = False
    intent_known: bool = False
    params_known: bool = False
    sanitized: int | None = None


@dataclass(frozen=True, slots=True)
class Rejected:
    """The handoff does not happen. The reason is for the record; a sender learns only that it was refused."""

    reason: Reason
    facts: Facts


@dataclass(frozen=True, slots=True)
class Approved:
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


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What a judgement depends on beside vocabulary and request.

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


def judge(vocabulary: Vocabulary, request: Request, around: Circumstances) -> Verdict:
    """Decide about one request. The same arguments give the same verdict."""
    facts = Facts(around.source, request)
    reason = _unreadable(request) or _target(vocabulary, request, around)
    if reason is not None:
        return Rejected(reason, facts)
    facts = replace(facts, target_known=True)
    if request.fault is Reason.LEGACY_PAYLOAD and vocabulary.legacy is not None:
        request = replace(request, intent=vocabulary.legacy, fault=None)
    if request.fault is not None:
        return Rejected(request.fault, facts)
    checked = vocabulary.intents.get(request.intent or "")
    if checked is None:
        return Rejected(Reason.UNKNOWN_INTENT, facts)
    return _within(checked, replace(facts, request=request, intent_known=True), around)


def _unreadable(request: Request) -> Reason | None:
    """Refusals of what has no target to be judged by."""
    early = {Reason.INVALID_JSON, Reason.OVER_BOUND, Reason.NESTED_REQUEST}
    return request.fault if request.fault in early else None


def _target(vocabulary: Vocabulary, request: Request, around: Circumstances) -> Reason | None:
    if request.target is None or request.target not in vocabulary.targets:
        return Reason.TARGET_NOT_ALLOWLISTED
    if around.peers is not None and request.target not in around.peers:
        return Reason.NOT_A_PEER
    return None


def _within(checked: Checked, facts: Facts, around: Circumstances) -> Verdict:
    """Decide about a request whose intent is known."""
    intent, request = checked.intent, facts.request
    assert request.target is not None
    if request.target not in intent.targets:
        return Rejected(Reason.TARGET_NOT_OF_INTENT, facts)
    note = next((value for name, value in request.params if intent.note and name == intent.note), "")
    params = _params(checked, request)
    if isinstance(params, Reason) or not isinstance(note, str):
        return Rejected(params if isinstance(params, Reason) else Reason.PARAMS_SCHEMA, facts)
    facts = replace(facts, params_known=True)
    if len(note) > intent.note_most or len(request.event) > EVENT:
        return Rejected(Reason.OVER_BOUND, facts)
    words = [sanitize(text, EVENT, around.scrub) for text in (request.event, note)]
    facts = replace(facts, sanitized=len(words[0]))
    if not all(checked.slugs[name].within(value) for name, value in params if name in checked.slugs):
        return Rejected(Reason.WORD_BUDGET, facts)
    data = tuple(DataFrame(around.source, around.at, text) for text in words if text)
    steering = checked.template.render(dict(params))
    return Approved(request.target, intent.name, params, steering, data, intent.allow_peers, facts)


def _params(checked: Checked, request: Request) -> tuple[tuple[str, str], ...] | Reason:
    """The parameters as text, each of its type; what is interpolated is looked at again, by character."""
    intent = checked.intent
    given = dict(request.params)
    if given.keys() - {each.name for each in intent.parameters} - {intent.note}:
        return Reason.PARAMS_SCHEMA
    texts: list[tuple[str, str]] = []
    for parameter in intent.parameters:
        if parameter.name not in given:
            if parameter.required:
                return Reason.PARAMS_SCHEMA
            continue
        text = parameter.text(given[parameter.name])
        if text is None or not checked.judge.accepts(parameter.name, text):
            return Reason.PARAMS_SCHEMA
        if parameter.name in checked.slugs and not checked.slugs[parameter.name].spelled(text):
            return Reason.PARAMS_SCHEMA
        texts.append((parameter.name, text))
    return tuple(texts)
