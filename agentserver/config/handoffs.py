"""Reads ``intents:`` and ``handoffs:`` into a checked vocabulary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentserver.config.code.signature import is_payload
from agentserver.config.findings import SourceSpan
from agentserver.config.keys.intents import IntentEntry
from agentserver.config.organism import Handoffs, SourceLine
from agentserver.core.handoffs import Handoff, Task
from agentserver.handoff.intents import LEGACY, Intent, Vocabulary, find_narrow_peers, vocabulary
from agentserver.handoff.parameters import NATIVE, Parameter, from_xsd
from agentserver.handoff.scrub import Scrub
from agentserver.hygiene.objections import Objection
from agentserver.hygiene.simple_types import Lexical
from agentserver.payload.codec import Codecs
from agentserver.payload.xmlify import PayloadError
from agentserver.remedies.configuration import ConfigCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from agentserver.config.code.binding import Binder
    from agentserver.config.findings import Mistakes
    from agentserver.config.keys.intents import ParameterEntry
    from agentserver.config.organism import BoundListener
    from agentserver.config.validation import DeclaredEntry, ParsedDocument
    from agentserver.handoff.intents import VocabularyFault

NOTE = "note"
"""The name of the free text of an intent, in a handoff and in a payload class of its own."""


@dataclass(frozen=True, slots=True)
class _ReadIntent:
    """Intent with its entry and its payload class."""

    declared: DeclaredEntry[IntentEntry]
    intent: Intent
    payload: type | None


def read_handoffs(parsed: ParsedDocument, bound: Sequence[BoundListener], binder: Binder) -> Handoffs | None:
    """Read the handoffs of an organism; None without any, or after a finding."""
    report = binder.report
    _check_tasks(bound, report, declared=bool(parsed.document.data.get("intents")))
    found = [_find_intent(each, binder) for each in parsed.list_entries("intents", IntentEntry)]
    sound = [each for each in found if each is not None]
    common = parsed.handoffs
    if not sound or len(sound) < len(found) or common is None:
        return None
    words = vocabulary([each.intent for each in sound], legacy=common.legacy)
    if not isinstance(words, Vocabulary):
        _report(words, sound, parsed, report)
        return None
    _check_targets(sound, bound, report)
    _report(
        find_narrow_peers(words, {b.listener.name: b.listener.peers for b in bound}), sound, parsed, report
    )
    payloads = _map_payloads(sound, bound, report)
    place = sound[0].declared.locate()
    audit = None if common.audit == "none" else common.audit
    scrub = Scrub.ON if common.scrub else Scrub.OFF
    return Handoffs(words, payloads, audit, scrub, SourceLine(place.file, place.line))


def _find_intent(declared: DeclaredEntry[IntentEntry], binder: Binder) -> _ReadIntent | None:
    entry = declared.entry
    payload = None
    parameters: Iterable[Parameter] | None = [_make_parameter(*each) for each in entry.params.items()]
    if entry.payload_class is not None:
        span = declared.locate("payload_class")
        payload = _find_payload(entry.payload_class, span, binder)
        parameters = None if payload is None else _from_class(payload, span, binder.report)
        if entry.params:
            binder.report.add_error(
                ConfigCode.INTENTS,
                declared.locate("params"),
                "conflicts with payload_class",
                "keep one of them",
            )
            return None
    if parameters is None:
        return None
    accepted = tuple(each for each in parameters if not entry.note or each.name != NOTE)
    allowed = None if entry.allow_peers is None else frozenset(entry.allow_peers)
    note = NOTE if entry.note else ""
    intent = Intent(
        entry.name, tuple(entry.target), entry.template, accepted, note, entry.note, entry.event, allowed
    )
    return _ReadIntent(declared, intent, payload)


def _make_parameter(name: str, entry: ParameterEntry) -> Parameter:
    kind, shape = NATIVE[entry.type]
    patterns = tuple(filter(None, (entry.pattern, shape)))
    lexical = Lexical(patterns, tuple(entry.choices), entry.min_length, entry.max_length)
    return Parameter(name, lexical, kind, entry.required, entry.words)


def _find_payload(path: str, span: SourceSpan, binder: Binder) -> type | None:
    found = binder.resolve(path, span)
    if found is None:
        return None
    if not isinstance(found, type) or not is_payload(found) or found in {Handoff, Task}:
        binder.report.add_error(
            ConfigCode.CLASS,
            span,
            f'"{path}" is no @xmlify class of this organism\'s own',
            "decorate it, or use params",
        )
        return None
    return found


def _from_class(payload: type, span: SourceSpan, report: Mistakes) -> tuple[Parameter, ...] | None:
    try:
        found = from_xsd(Codecs([payload]).of(payload).xsd())
    except PayloadError as error:
        report.add_error(ConfigCode.PAYLOAD, span, str(error))
        return None
    if isinstance(found, Objection):
        report.add_error(ConfigCode.INTENTS, span, f"{payload.__qualname__}: {found}")
        return None
    return found


def _report(
    faults: Iterable[VocabularyFault], read: Sequence[_ReadIntent], parsed: ParsedDocument, report: Mistakes
) -> None:
    """Report each fault at its line."""
    declared = {each.intent.name: each.declared for each in read}
    for fault in faults:
        if fault.field == LEGACY:
            report.add_error(
                ConfigCode.INTENTS,
                parsed.document.locate(("handoffs", LEGACY)),
                f"{fault.intent} {fault.detail}",
            )
            continue
        span = _locate(declared[fault.intent], fault.field)
        shown = span.path.rpartition(".")[2] == fault.field
        report.add_error(
            ConfigCode.INTENTS, span, fault.detail if shown else f"{fault.field}: {fault.detail}"
        )


def _locate(declared: DeclaredEntry[IntentEntry], field: str) -> SourceSpan:
    if field in declared.entry.params:
        return declared.locate("params", field)
    return declared.locate(field if field in declared.entry.model_fields_set else "payload_class")


def _check_tasks(bound: Sequence[BoundListener], report: Mistakes, *, declared: bool) -> None:
    """Refuse listeners of tasks without an intent, and listeners of payloads that only the server reads."""
    for item in bound:
        span = _make_path(item)
        if Handoff in item.listener.payloads:
            message = f'"{item.listener.name}" takes a Handoff, which the server reads and no listener gets'
            report.add_error(ConfigCode.INTENTS, span, message, "take the Task")
        if Task in item.listener.payloads and not declared:
            message = f'"{item.listener.name}" takes a Task, and there are no intents'
            report.add_error(ConfigCode.INTENTS, span, message, "declare intents")


def _check_targets(read: Sequence[_ReadIntent], bound: Sequence[BoundListener], report: Mistakes) -> None:
    """Refuse targets that do not accept tasks."""
    takes = {item.listener.name: Task in item.listener.payloads for item in bound}
    for each in read:
        for i, target in enumerate(each.intent.targets):
            report.check_listener(each.declared.locate("target", i), target, takes)
            if not takes.get(target, True):
                message = f'"{target}" takes no Task'
                suggestion = "add agentserver.Task to its payload_class"
                report.add_error(ConfigCode.INTENTS, each.declared.locate("target", i), message, suggestion)


def _map_payloads(
    read: Sequence[_ReadIntent], bound: Sequence[BoundListener], report: Mistakes
) -> Mapping[type, Mapping[str, str]]:
    """Map each payload class to its intent by target; refuse ambiguous classes, and those of the target."""
    takes = {item.listener.name: item.listener.payloads for item in bound}
    found: dict[type, dict[str, str]] = {}
    for each in read:
        if each.payload is None:
            continue
        span, targets = each.declared.locate("payload_class"), found.setdefault(each.payload, {})
        for target in each.intent.targets:
            other = targets.setdefault(target, each.intent.name)
            if other != each.intent.name:
                report.add_error(
                    ConfigCode.INTENTS, span, f'means "{other}" for {target} already', "use two classes"
                )
            if each.payload in takes.get(target, ()):
                message = f"{target} takes {each.payload.__qualname__} itself, around the intent"
                report.add_error(
                    ConfigCode.INTENTS, span, message, "take it out of the listener's payload_class"
                )
    return found


def _make_path(item: BoundListener) -> SourceSpan:
    return SourceSpan(item.source.file, item.source.line)
