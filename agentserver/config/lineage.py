"""Reads ``provenance:`` and ``trust:`` into one policy.

Without these keys, origins are not tracked. The keys are the same as in a policy file.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import Field, ValidationError

from agentserver.config.code.userland import NoFile
from agentserver.config.findings import SourceSpan, did_you_mean
from agentserver.config.keys.models import OrganismFile
from agentserver.config.organism import Provenance, list_keepers
from agentserver.config.yaml.document import Document
from agentserver.guards.lineage.exposure import Recall
from agentserver.provenance.evidence.labels import covers, means
from agentserver.provenance.policy.declarations import PlanSource, Policy, SinkRule
from agentserver.provenance.policy.file import PolicyError, convert_entry, read_yaml
from agentserver.provenance.policy.marks import list_field_paths
from agentserver.provenance.policy.model import PolicyEntry, Text, describe_fault
from agentserver.remedies.configuration import ConfigCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from agentserver.config.code.userland import Project
    from agentserver.config.findings import Loc, Mistakes
    from agentserver.config.organism import BoundListener, Handoffs
    from agentserver.config.validation import DeclaredListener

POLICY_BYTES = 1 << 20
"""Of a policy file; a longer one is cut, and then no YAML."""

CONTRADICTIONS = (
    ("source", "trusted"),
    ("source", "relay"),
    ("source", "quarantined"),
    ("source", "planner"),
    ("trusted", "relay"),
    ("trusted", "quarantined"),
    ("relay", "quarantined"),
    ("inert", "source"),
    ("inert", "sink"),
    ("inert", "quarantined"),
)
"""Pairs of keys that no listener has at once."""


class PolicyText(NamedTuple):
    """Text of a policy file.

    Args:
        file: shown in findings.
        text: YAML, of at most ``POLICY_BYTES``.
    """

    file: Path
    text: str


class ProvenanceEntry(PolicyEntry):
    """Keys of a policy, or the path of a file with them, or both."""

    policy: Text = Field(
        default="",
        description="A file with these keys, relative to the project directory; set each key in one place only.",
    )
    planner: Text = Field(
        default="",
        description="The listener whose Plan fixes what a conversation may do, as long as nothing but the principal's "
        "words has reached it; the same as trust: planner there.",
    )


class TrustingFile(OrganismFile):
    """The organism: listeners, permitted peers, provenance and limits."""

    provenance: ProvenanceEntry | None = Field(
        default=None, title="Provenance", description=OrganismFile.model_fields["provenance"].description
    )


class _Part(NamedTuple):
    """Keys of the policy in one document.

    Args:
        entry: the checked keys.
        document: that contains them.
        at: their path in the document.
    """

    entry: PolicyEntry
    document: Document
    at: Loc = ()

    @property
    def values(self) -> Any:
        """The keys as they are written."""
        values: Any = self.document.data
        for key in self.at:
            values = values[key]
        return values

    def locate(self, loc: Loc) -> SourceSpan:
        """Locate a key or a value."""
        return self.document.locate((*self.at, *loc))


class PolicyReader:
    """Reader of the provenance of an organism.

    Args:
        project: directory of the policy file.
        document: the main file.
        declared: the entries of all listeners.
        report: collects the findings.
    """

    def __init__(
        self,
        project: Project,
        document: Document,
        declared: Sequence[DeclaredListener],
        report: Mistakes,
    ) -> None:
        self._project, self._document = project, document
        self._declared, self._report = declared, report
        self._planner = ProvenanceEntry.model_validate(document.data.get("provenance") or {}).planner

    def read_provenance(
        self,
        bound: Sequence[BoundListener],
        handoffs: Handoffs | None = None,
        instead: PolicyText | None = None,
    ) -> Provenance | None:
        """Read and check the provenance; None after a finding. ``instead`` is a policy that replaces the keys."""
        parts = self._read_parts() if instead is None else self._read_only(instead)
        if parts is None:
            return None
        keys = {key: value for part in parts for key, value in convert_entry(part.entry).items()}
        provenance = self._make_policy(keys, list_keepers(bound))
        _Check(provenance.policy, parts, bound, _map_handoff_values(handoffs), self._report).run()
        self._check_contradictions(provenance.policy)
        self._check_planners(provenance)
        self._warn_of_idle(provenance.policy)
        self._warn_undeclared(provenance.policy)
        self._check_bytes(provenance.policy, bound)
        self._check_keepers(provenance.policy, bound)
        return provenance

    def _read_parts(self) -> tuple[_Part, ...] | None:
        """Read the policy file, if any, and the keys of the YAML; None after a finding."""
        entry = ProvenanceEntry.model_validate(self._document.data["provenance"] or {})
        own = _Part(entry, self._document, ("provenance",))
        if not entry.policy:
            return (own,)
        file = self._find_policy_file(entry.policy)
        return None if file is None or self._report_repeated(file, own) else (file, own)

    def _find_policy_file(self, name: Any) -> _Part | None:
        span = self._document.locate(("provenance", "policy"))
        path = self._project.resolve_file(str(name))
        if isinstance(path, NoFile):
            hint = path.suggestion or "agentserver provenance suggest proposes one"
            self._report.add_error(ConfigCode.FILE, span, path.message, hint)
            return None
        return self._read(path, self._project.shown / path.relative_to(self._project.root), span)

    def _read_only(self, policy: PolicyText) -> tuple[_Part, ...] | None:
        """Read a policy as the only part."""
        found = self._parse(policy, SourceSpan(policy.file, 1))
        return None if found is None else (found,)

    def _read(self, path: Path, shown: Path, span: SourceSpan) -> _Part | None:
        try:
            with path.open("rb") as stream:
                text = stream.read(POLICY_BYTES).decode("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            self._report.add_error(ConfigCode.FILE, span, str(error))
            return None
        return self._parse(PolicyText(shown, text), span)

    def _parse(self, policy: PolicyText, span: SourceSpan) -> _Part | None:
        shown = policy.file
        try:
            content = read_yaml(policy.text, str(shown))
        except PolicyError as error:
            self._report.add_error(ConfigCode.FILE, span, str(error))
            return None
        document = Document(shown, shown.parent, content.values, content.lines, {})
        try:
            return _Part(PolicyEntry.model_validate(content.values), document)
        except ValidationError as error:
            for fault in error.errors(include_url=False, include_input=False):
                loc, message = describe_fault(fault)
                self._report.add_error(ConfigCode.VALUE, document.locate(loc), message)
            return None

    def _report_repeated(self, file: _Part, own: _Part) -> bool:
        """Return True when a key is in both parts; the author has to remove one."""
        twice = [key for key in own.values if key in file.values]
        for key in twice:
            message = f'"{key}" is given in {file.document.file} too'
            self._report.add_error(ConfigCode.REPEATED, own.locate((key,)), message, "give it in one place")
        return bool(twice)

    # Policy

    def _make_policy(self, keys: dict[str, Any], keepers: frozenset[str]) -> Provenance:
        """Make one policy from the keys and the entries of listeners."""
        named_sinks = {rule.name for rule in keys.get("sinks", ())}
        own = tuple(SinkRule(name) for name in self._check_listeners("sink") if name not in named_sinks)
        quarantined = self._check_listeners("quarantined")
        planners = frozenset((*self._check_listeners("planner"), *filter(None, [self._planner])))
        keys["sources"] = (*keys.get("sources", ()), *self._check_listeners("source"))
        keys["sinks"] = (*keys.get("sinks", ()), *own)
        keys["trusted"] = (*keys.get("trusted", ()), *self._check_listeners("trusted"), *quarantined)
        keys["inert"] = (*keys.get("inert", ()), *self._check_listeners("inert"))
        keys["relays"] = (*keys.get("relays", ()), *self._check_listeners("relay"))
        keys["relays"] = (*keys["relays"], *self._list_agents(Policy(**keys), planners))
        viewers = frozenset(declared.entry.name for declared in self._declared if declared.entry.view)
        recalls = {**self._map_memory(), **dict.fromkeys(keepers, Recall.THREAD)}
        return Provenance(Policy(**keys), frozenset(quarantined), planners, recalls, viewers, keepers)

    def _map_memory(self) -> Mapping[str, Recall]:
        """Map each listener with ``memory`` to its extent."""
        lifespan = self._document.data.get("lifespan")
        carries = isinstance(lifespan, dict) and lifespan.get("carries") is not None
        usual = Recall.SERVER if carries else Recall.LISTENER
        found = {}
        for declared in self._declared:
            declared_memory = declared.entry.memory or ("thread" if declared.entry.model else None)
            found[declared.entry.name] = usual if declared_memory is None else Recall(declared_memory)
        return {name: recall for name, recall in found.items() if recall is not Recall.LISTENER}

    def _check_listeners(self, word: str) -> tuple[str, ...]:
        return tuple(
            declared.entry.name
            for declared in self._declared
            if word in declared.entry.trust and not {"trust", "name"} & declared.faulty
        )

    def _list_agents(self, policy: Policy, planners: AbstractSet[str]) -> Iterator[str]:
        """List agents, planners and viewers that are not a source: output of a model carries no authority."""
        for declared in self._declared:
            name = declared.entry.name
            found = policy.classify(name)
            trusted = any(means(entry, name) for entry in policy.trusted)
            own = declared.entry.acts or declared.entry.view is not None or name in planners
            if own and not (trusted or found.relay or (found.known and found.source)):
                yield name

    def _check_contradictions(self, policy: Policy) -> None:
        for declared in self._declared:
            words, span = declared.entry.trust, declared.locate("trust")
            for one, other in CONTRADICTIONS:
                if one in words and other in words:
                    self._report.add_error(
                        ConfigCode.PROVENANCE, span, f"a listener cannot be {one} and {other}"
                    )
            if declared.entry.view and "quarantined" in words:
                self._report.add_error(
                    ConfigCode.QUARANTINE,
                    declared.locate("view"),
                    "a quarantined listener is there to read what references hide",
                )
            found = policy.classify(declared.entry.name)
            agreement = {
                "source": found.source,
                "sink": found.sink,
                "relay": found.relay,
                "inert": found.relay,
            }
            agreement["planner"] = not found.source  # a stranger's words fix no plan
            denied = [word for word in words if not agreement.get(word, True)]
            for word in denied:
                self._report.add_error(
                    ConfigCode.PROVENANCE, span, f"{word}, but the policy says otherwise: {found.why}"
                )

    def _check_planners(self, provenance: Provenance) -> None:
        """Refuse a planner that cannot plan, and a required plan without a planner."""
        names = [declared.entry.name for declared in self._declared]
        if self._planner:
            span = self._document.locate(("provenance", "planner"))
            found = provenance.policy.classify(self._planner)
            if self._planner not in names:
                message = f'"{self._planner}" means no listener'
                self._report.add_error(ConfigCode.NAME, span, message, did_you_mean(self._planner, names))
            elif found.source:
                self._report.add_error(
                    ConfigCode.PROVENANCE, span, f'"{self._planner}" fixes no plan: {found.why}'
                )
        elif not provenance.planners and provenance.policy.plan in {
            PlanSource.REQUIRED,
            PlanSource.CONFIRMED,
        }:
            message = f"plan: {provenance.policy.plan.value}, and no listener is a planner, so no sink will ever run"
            self._report.add_warning(
                ConfigCode.PROVENANCE,
                self._document.locate(("provenance",)),
                message,
                "planner: the listener that is one",
            )

    def _check_bytes(self, policy: Policy, bound: Sequence[BoundListener]) -> None:
        """Refuse a source that returns bytes: its text would choose the payload and the trust of its fields."""
        for item in bound:
            if item.returns_bytes and policy.classify(item.listener.name).source:
                span = SourceSpan(item.source.file, item.source.line)
                message = f'"{item.listener.name}" is a source and returns bytes, whose text chooses the payload class'
                self._report.add_error(ConfigCode.PROVENANCE, span, message, "return a HandlerResponse")

    def _check_keepers(self, policy: Policy, bound: Sequence[BoundListener]) -> None:
        """Refuse a trust of the memory tool that would override the origins in its notes."""
        keepers = list_keepers(bound)
        for item in (one for one in bound if one.listener.name in keepers):
            found = policy.classify(item.listener.name)
            if not found.known or found.source or found.sink or found.relay:
                span = SourceSpan(item.source.file, item.source.line)
                message = f'"{item.listener.name}" keeps notes, each with the origin of its words'
                self._report.add_error(
                    ConfigCode.PROVENANCE, span, message, "write trust: trusted, and nothing else"
                )

    def _warn_undeclared(self, policy: Policy) -> None:
        """Warn of each undeclared listener, which counts as source and sink."""
        for declared in self._declared:
            name = declared.entry.name
            if not policy.classify(name).known:
                message = (
                    f'nothing is declared of "{name}": its words are a stranger\'s, and it has consequences'
                )
                hint = "write trust: [source, sink] at it, or source, sink, trusted, inert or relay alone"
                self._report.add_warning(ConfigCode.PROVENANCE, declared.locate("name"), message, hint)

    def _warn_of_idle(self, policy: Policy) -> None:
        """Warn of a policy that can never find anything."""
        classes = [policy.classify(declared.entry.name) for declared in self._declared]
        for word in ("source", "sink"):
            if not any(getattr(found, word) for found in classes):
                span = self._document.locate(("provenance",))
                message = f"no listener is a {word}, so nothing will ever be found"
                self._report.add_warning(
                    ConfigCode.PROVENANCE, span, message, f"trust: {word} at the listener that is one"
                )


@dataclass(frozen=True, slots=True)
class _Check:
    """Check of the names in a policy: a typing error would switch a rule off."""

    policy: Policy
    parts: tuple[_Part, ...]
    bound: Sequence[BoundListener]
    handed: Mapping[str, AbstractSet[str]]
    report: Mistakes

    def run(self) -> None:
        """Report every unknown name. Skipped when listeners are missing because of other mistakes."""
        if self.report.failed:
            return
        names = [item.listener.name for item in self.bound]
        for entry in self.policy.find_unused(names):
            self._report_error(ConfigCode.NAME, entry, f'"{entry}" means no listener', names)
        for entry in (*self.policy.allow, *self.policy.deny):
            name = entry.removeprefix("listener:")
            if name != entry and not any(means(name, known) for known in names):
                self._report_error(ConfigCode.NAME, entry, f'"{name}" means no listener', names)
        try:
            self._check_fields({item.listener.name: item for item in self.bound})
        except (TypeError, NameError):
            return  # the payload's own mistake, which the server names when it is put together

    def _check_fields(self, bound: dict[str, BoundListener]) -> None:
        everything = sorted({path for item in bound.values() for path in _iter_paths(item.discovered)})
        entries = (
            *(rule.field for rule in self.policy.fields),
            *(rule.field for rule in self.policy.readers),
        )
        for rule in (rule for rule in self.policy.layouts if not rule.field):
            self._report_error(
                ConfigCode.PROVENANCE,
                rule.source,
                f'"{rule.source}" needs the field that holds the text',
                everything,
            )
        laid = tuple(rule.field for rule in self.policy.layouts if rule.field)
        for name in (*entries, *laid):
            parts = any(name.startswith(f"{field}.") for field in laid)
            if not parts and not any(fnmatchcase(path, name) for path in everything):
                self._report_error(
                    ConfigCode.NAME, name, f'"{name}" means no field of any payload', everything
                )
        for sink in self.policy.sinks or ():
            takers = [item for name, item in bound.items() if covers(sink.name, name)]
            fields_ = {path for item in takers for path in _iter_paths(item.listener.payloads)}
            accepted = sorted(fields_.union(*(self.handed.get(item.listener.name, ()) for item in takers)))
            known = [*accepted, *(path.partition(".")[0] for path in accepted)]
            for argument in sink.arguments:
                if takers and not any(fnmatchcase(path, argument.name) for path in known):
                    self._report_error(
                        ConfigCode.PROVENANCE,
                        argument.name,
                        f'"{argument.name}" means no field that {sink.name} takes',
                        accepted,
                    )
                for entry in argument.accepts:
                    self._check_accepted(entry, bound, everything)

    def _check_accepted(self, entry: str, bound: Iterable[str], everything: Sequence[str]) -> None:
        if entry == "record":
            return
        matches = {(name, path) for name in bound for path in everything if means(entry, f"{name}.{path}")}
        if not matches:
            self._report_error(ConfigCode.NAME, entry, f'"{entry}" means no field of any listener', [])
        elif len(matches) > 1 and any(mark in entry for mark in "*?["):
            message = f'"{entry}" accepts every field that it matches, a stranger\'s text as well'
            self.report.add_warning(
                ConfigCode.PROVENANCE, self._locate(entry), message, "name the one field, as listener.field"
            )

    def _report_error(self, code: ConfigCode, entry: str, message: str, known: Iterable[str]) -> None:
        self.report.add_error(code, self._locate(entry), message, did_you_mean(entry, known))

    def _locate(self, entry: str) -> SourceSpan:
        places = (
            part.locate(loc)
            for part in self.parts
            for text, loc in _iter_texts(part.values, ())
            if text == entry
        )
        return next(places, self.parts[-1].locate(()))


def _map_handoff_values(handoffs: Handoffs | None) -> Mapping[str, AbstractSet[str]]:
    """Map each target to the names of the values of its handoffs, which are judged as its fields."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for checked in () if handoffs is None else handoffs.vocabulary.intents.values():
        for target in checked.intent.targets:
            found[target].update(parameter.name for parameter in checked.intent.parameters)
    return found


def _iter_paths(payloads: Iterable[type]) -> Iterator[str]:
    for payload in payloads:
        yield from list_field_paths(payload)


def _iter_texts(value: Any, loc: Loc) -> Iterator[tuple[str, Loc]]:
    """Yield every key and scalar below a value, with its path."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key, (*loc, key)
            yield from _iter_texts(inner, (*loc, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _iter_texts(item, (*loc, number))
    else:
        yield str(value), loc
