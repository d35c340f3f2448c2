"""``agentserver provenance``: proposes a provenance policy for an organism, and tries one."""

from __future__ import annotations

import inspect
from collections import defaultdict
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING

import click

from agentserver.cli import backtest, project, reading
from agentserver.cli.project import Verbs

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    from agentserver.config import Organism
    from agentserver.config.organism import BoundListener
    from agentserver.core.guard import Rules
    from agentserver.core.messages import Delivery
    from agentserver.payload.codec import Codec
    from agentserver.payload.fields.field_table import RecordType, Type
    from agentserver.provenance.evidence.labels import Leaf
    from agentserver.provenance.policy.declarations import Policy
    from agentserver.provenance.policy.suggestion import FieldForm, FieldShape, ListenerShape

    Seen: TypeAlias = Mapping[str, Sequence[Leaf]]
    """Leaves of recorded messages, by listener."""


@click.command("suggest", short_help="Propose a policy for undeclared listeners.")
@project.add_organism_argument
@click.option("--conversation", help="Id or its beginning: recorded values improve the proposal.")
@click.option(
    "--journal",
    type=project.FILE,
    help="Journal file; the organism's own by default.",
)
@click.option(
    "--over",
    multiple=True,
    type=click.Path(path_type=Path, exists=True),
    metavar="PATH",
    help="Journal or recorded conversation of ORGANISM, or, without ORGANISM, OpenTelemetry trace or log of AgentDojo,"
    " whose tools are the listeners; or folder of such.",
)
@click.option("--labels", type=project.FILE, help="Marks of the conversations, as for backtest.")
@project.output_option
def suggest(
    organism: Path | None,
    conversation: str | None,
    journal: Path | None,
    over: tuple[Path, ...],
    labels: Path | None,
    output: Path | None,
) -> None:
    """Propose a policy for the undeclared listeners of ORGANISM, for a person to edit.

    YAML, with a line for each listener under each key that may apply. The proposal is based on types and
    recorded values, not on names; no recorded value is shown. Uncertain lines are commented out. ORGANISM is by
    default config/organism.yaml, then organism.yaml.

    With --over, each line says how many honest calls of the history it saves, and how many attacks it lets pass.
    """
    from agentserver.provenance.policy.suggestion import suggest as proposed

    if journal is not None and conversation is None:
        raise click.UsageError("--journal needs --conversation, which selects the conversation to read")
    if over:
        if conversation is not None:
            raise click.UsageError("--over excludes --conversation")
        project.write(output, backtest.suggest_over(over, labels, organism, iter_shapes))
        return
    loaded = project.load(organism)
    rules = project.build_rules(loaded)
    deliveries: Iterable[Delivery] = ()
    if conversation is not None:
        with reading.Storage(organism, journal).open() as reader:
            key = reading.find_conversation(reader, conversation)
            deliveries = reading.read_recorded_conversation(reader, key).deliveries.values()
    found = tuple(iter_shapes(loaded, rules, deliveries))
    mode = "audit" if loaded.provenance is None else ""
    place = "keys for provenance: or for a policy file" if mode else "keys to add to the declared ones"
    proposal = proposed(found, f"Proposed for {len(found)} undeclared listeners; {place}.", mode=mode)
    project.write(output, proposal.format())


command = Verbs(
    "provenance",
    commands=[suggest, backtest.command],
    short_help="Propose a policy, or try one on recorded conversations.",
    help="Provenance: where values come from, and which actions they may influence.",
)


def iter_shapes(organism: Organism, rules: Rules, deliveries: Iterable[Delivery]) -> Iterator[ListenerShape]:
    """Yield the undeclared listeners: fields of their requests and answers, and recorded values of these.

    Foreign tools whose arguments have no declared roles are among them, for the roles that their schemas state.
    """
    from agentserver.contract import SYSTEM_PAYLOADS
    from agentserver.provenance.policy.declarations import Policy
    from agentserver.provenance.policy.suggestion import ListenerShape

    policy = Policy() if organism.provenance is None else organism.provenance.policy
    unknown = {
        each.listener.name: each
        for each in organism.listeners
        if not policy.classify(each.listener.name).known or _states_roles(policy, each)
    }
    received, sent = _recorded_leaves(rules, deliveries, unknown)
    for name, bound in unknown.items():
        own = (*bound.listener.payloads, *SYSTEM_PAYLOADS)
        answers = [payload for payload in _list_likely_answers(bound) if payload not in own]
        handed = dict(_iter_handed_values(organism, name))
        yield ListenerShape(
            name,
            _list_field_shapes(rules, bound.listener.payloads, received.get(name, ()), handed, argument=True),
            _list_field_shapes(rules, answers, sent.get(name, ()), {}, argument=False),
            bound.listener.agent,
            policy.classify(name).known,
        )


def _list_likely_answers(bound: BoundListener) -> Iterable[type]:
    """List the classes of a listener's answers as declared, else those that its handler names, else all that it may."""
    from agentserver.config.code.signature import list_named_classes

    if bound.listener.answers:
        return bound.listener.answers
    code = bound.handler and inspect.unwrap(bound.handler)
    named = list_named_classes(code) if isinstance(code, FunctionType) else ()
    return [each for each in bound.discovered if each in named] or bound.discovered


def _states_roles(policy: Policy, bound: BoundListener) -> bool:
    """Check for a foreign tool with consequences, without declared arguments, whose schema states a role."""
    from agentserver.payload.foreign.formats import is_foreign
    from agentserver.payload.foreign.mapping import codec_of
    from agentserver.provenance.policy.suggestion import FieldForm

    name, rule = bound.listener.name, policy.sink_rule(bound.listener.name)
    foreign = [payload for payload in bound.listener.payloads if is_foreign(payload)]
    if not policy.classify(name).sink or (rule is not None and rule.arguments):
        return False
    forms = (form for payload in foreign for _, form in _iter_leaf_forms(codec_of(payload)))
    return any(form is not FieldForm.TEXT for form in forms)


def _recorded_leaves(
    rules: Rules, deliveries: Iterable[Delivery], names: Container[str]
) -> tuple[Seen, Seen]:
    """Collect the values that listeners received in a conversation, and those that they sent."""
    from agentserver.core.decide.intake import read_own
    from agentserver.core.handoffs import TASK
    from agentserver.guards.lineage.reading import Readings, list_task_leaves

    readings = Readings(rules.codecs)
    received: defaultdict[str, list[Leaf]] = defaultdict(list)
    sent: defaultdict[str, list[Leaf]] = defaultdict(list)
    for delivery in deliveries:
        codec = rules.codecs.for_root(delivery.root)
        if codec is None or not (delivery.to in names or delivery.sender in names):
            continue
        element = read_own(delivery, codec, rules.bounds)
        if element is None:
            continue
        found = (
            list_task_leaves(codec.decode(element))
            if codec.name == TASK
            else readings[codec.name].read_leaves(element)
        )
        received[delivery.to].extend(found)
        sent[delivery.sender].extend(found)
    return received, sent


def _list_field_shapes(
    rules: Rules,
    payloads: Iterable[type],
    seen: Sequence[Leaf],
    handed: Mapping[str, FieldForm],
    *,
    argument: bool,
) -> tuple[FieldShape, ...]:
    """List the fields of payloads whose types declare nothing, and handed values, with their recorded texts."""
    from agentserver.core.handoffs import Handoff, Task
    from agentserver.provenance.evidence.labels import strip_indices
    from agentserver.provenance.policy.marks import find_covering, read_marks
    from agentserver.provenance.policy.suggestion import FieldForm, FieldShape

    known = dict(handed)
    marked: set[str] = set()
    for codec in map(rules.codecs.of, payloads):
        marks = read_marks(codec.payload)
        marked.update(path for path, _ in (marks.roles if argument else marks.standings))
        for path, form in () if codec.payload in (Handoff, Task) else _iter_leaf_forms(codec):
            known[path] = form if known.setdefault(path, form) is form else FieldForm.TEXT
    values: defaultdict[str, list[str]] = defaultdict(list)
    for leaf in seen:
        field = find_covering(known, strip_indices(leaf.path))
        if field is not None and isinstance(leaf.value, str):
            values[field].append(leaf.value)
    return tuple(
        FieldShape(path, form, tuple(values[path]))
        for path, form in known.items()
        if find_covering(marked, path) is None
    )


def _iter_handed_values(organism: Organism, target: str) -> Iterator[tuple[str, FieldForm]]:
    """Yield the values that a listener can be handed, which are judged like fields of its payload."""
    from agentserver.provenance.policy.suggestion import FieldForm

    intents = () if organism.handoffs is None else organism.handoffs.vocabulary.intents.values()
    for checked in intents:
        for parameter in checked.intent.parameters if target in checked.intent.targets else ():
            yield parameter.name, FieldForm.CHOICE if parameter.lexical.choices else FieldForm.TEXT


def _iter_leaf_forms(codec: Codec) -> Iterator[tuple[str, FieldForm]]:
    """Yield each leaf field of a payload and the form of its type; in a hand-written schema all are text."""
    from agentserver.payload.foreign.formats import list_formats
    from agentserver.provenance.policy.marks import list_field_paths
    from agentserver.provenance.policy.suggestion import FieldForm

    if codec.described is not None:
        formats = dict(list_formats(codec.payload))
        for path, form in _record_forms(codec.described.record, ""):
            yield path, _find_stated_form(formats.get(path, ""), form)
        return
    paths = tuple(dict.fromkeys(list_field_paths(codec.payload)))
    for path in paths:
        if not any(other.startswith(f"{path}.") for other in paths):
            yield path, FieldForm.TEXT


def _find_stated_form(format_name: str, form: FieldForm) -> FieldForm:
    """Return the form of a text by the format that a foreign schema states; else its own."""
    from agentserver.provenance.evidence.labels import Role
    from agentserver.provenance.policy.schemas import FORMAT_ROLES
    from agentserver.provenance.policy.suggestion import FieldForm

    known = {Role.DESTINATION: FieldForm.ADDRESS, Role.TIME: FieldForm.TIME}
    role = FORMAT_ROLES.get(format_name) if form is FieldForm.TEXT else None
    return form if role is None else known[role]


def _record_forms(record: RecordType, prefix: str) -> Iterator[tuple[str, FieldForm]]:
    from agentserver.payload.fields.field_table import RecordType

    for field in record.fields:
        path = f"{prefix}{field.name}"
        if isinstance(field.type, RecordType):
            yield from _record_forms(field.type, f"{path}.")
        else:
            yield path, _find_type_form(field.type)


def _find_type_form(kind: Type) -> FieldForm:
    from agentserver.payload.fields.field_table import Scalar
    from agentserver.payload.fields.lexical import ScalarKind
    from agentserver.provenance.policy.suggestion import FieldForm

    assert isinstance(kind, Scalar)
    match kind.kind:
        case ScalarKind.BOOL:
            return FieldForm.FLAG
        case ScalarKind.INT | ScalarKind.FLOAT | ScalarKind.DECIMAL:
            return FieldForm.NUMBER
        case ScalarKind.DATE | ScalarKind.TIME | ScalarKind.DATETIME:
            return FieldForm.TIME
        case _:
            return FieldForm.CHOICE if kind.choices else FieldForm.TEXT
