"""``provenance:`` and ``trust:``: whom an organism trusts with what.

Owns how a policy file, the same keys inline and each listener's ``trust`` become one policy, and that nothing of them
means no trust at all. The keys are the policy file's own. Refuses to know what a policy does.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import Field, ValidationError

from agentserver.config.code.userland import NoFile
from agentserver.config.findings import Where, did_you_mean
from agentserver.config.keys.models import OrganismFile
from agentserver.config.organism import Provenance
from agentserver.config.yaml.document import Document
from agentserver.guards.lineage.exposure import Recall
from agentserver.provenance.policy.declarations import PlanSource, Policy, SinkRule
from agentserver.provenance.policy.declared import paths
from agentserver.provenance.policy.file import PolicyError, arguments, read_yaml
from agentserver.provenance.policy.model import PolicyEntry, Text, told
from agentserver.provenance.policy.paths import covers, means
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


class ProvenanceEntry(PolicyEntry):
    """The keys of a policy, or the file that holds them, or some of them here and others there."""

    policy: Text = Field(
        default="",
        description="A file with these keys, relative to the project directory; each key stands in one place.",
    )
    planner: Text = Field(
        default="",
        description="The listener whose Plan fixes what a conversation may do, as long as nothing but the principal's "
        "words has reached it; the same as trust: planner there.",
    )


class TrustingFile(OrganismFile):
    """The organism: who listens, who may talk to whom, whose words may drive what, and the limits."""

    provenance: ProvenanceEntry | None = Field(
        default=None, title="Provenance", description=OrganismFile.model_fields["provenance"].description
    )


class _Part(NamedTuple):
    """Keys of the policy in one document.

    Args:
        entry: the keys, checked.
        document: that holds them.
        at: the way to them in the document.
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

    def where(self, loc: Loc) -> Where:
        """The place of a key or a value."""
        return self.document.where((*self.at, *loc))


class PolicyReader:
    """Reads whom an organism trusts with what.

    Args:
        project: where the policy file may be.
        document: the main file.
        declared: every listener's entry.
        report: takes the findings.
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

    def provenance(
        self, bound: Sequence[BoundListener], handoffs: Handoffs | None = None, instead: Path | None = None
    ) -> Provenance | None:
        """The declared provenance, checked; None after a finding. ``instead`` is a policy file in place of the keys."""
        parts = self._parts() if instead is None else self._alone(instead)
        if parts is None:
            return None
        keys = {key: value for part in parts for key, value in arguments(part.entry).items()}
        made = self._made(keys)
        _Check(made.policy, parts, bound, _handed(handoffs), self._report).run()
        self._contradicted(made.policy)
        self._unplanned(made)
        self._idle(made.policy)
        self._undeclared(made.policy)
        self._untyped(made.policy, bound)
        return made

    # Where it stands

    def _parts(self) -> tuple[_Part, ...] | None:
        """The policy file, if one is named, and the keys beside it; None after a finding."""
        entry = ProvenanceEntry.model_validate(self._document.data["provenance"] or {})
        own = _Part(entry, self._document, ("provenance",))
        if not entry.policy:
            return (own,)
        file = self._policy_file(entry.policy)
        return None if file is None or self._twice(file, own) else (file, own)

    def _policy_file(self, name: Any) -> _Part | None:
        where = self._document.where(("provenance", "policy"))
        path = self._project.file(str(name))
        if isinstance(path, NoFile):
            hint = path.suggestion or "agentserver provenance suggest proposes one"
            self._report.error(ConfigCode.FILE, where, path.message, hint)
            return None
        return self._read(path, self._project.shown / path.relative_to(self._project.root), where)

    def _alone(self, path: Path) -> tuple[_Part, ...] | None:
        """The one part that a policy file is."""
        found = self._read(path, path, Where(path, 1))
        return None if found is None else (found,)

    def _read(self, path: Path, shown: Path, where: Where) -> _Part | None:
        try:
            with path.open("rb") as stream:
                text = stream.read(POLICY_BYTES).decode("utf-8-sig")
            written = read_yaml(text, str(shown))
        except (OSError, UnicodeDecodeError, PolicyError) as error:
            self._report.error(ConfigCode.FILE, where, str(error))
            return None
        document = Document(shown, path.parent, written.values, written.lines, {})
        try:
            return _Part(PolicyEntry.model_validate(written.values), document)
        except ValidationError as error:
            for fault in error.errors(include_url=False, include_input=False):
                loc, message = told(fault)
                self._report.error(ConfigCode.VALUE, document.where(loc), message)
            return None

    def _twice(self, file: _Part, own: _Part) -> bool:
        """True when a key stands in both; the author has to say which of them goes."""
        twice = [key for key in own.values if key in file.values]
        for key in twice:
            message = f'"{key}" is given in {file.document.file} too'
            self._report.error(ConfigCode.REPEATED, own.where((key,)), message, "give it in one place")
        return bool(twice)

    # What it says

    def _made(self, keys: dict[str, Any]) -> Provenance:
        """One policy of the keys and of what each listener says of itself."""
        given = {rule.name for rule in keys.get("sinks", ())}
        own = tuple(SinkRule(name) for name in self._who("sink") if name not in given)
        quarantined = self._who("quarantined")
        planners = frozenset((*self._who("planner"), *filter(None, [self._planner])))
        keys["sources"] = (*keys.get("sources", ()), *self._who("source"))
        keys["sinks"] = (*keys.get("sinks", ()), *own)
        keys["trusted"] = (*keys.get("trusted", ()), *self._who("trusted"), *quarantined)
        keys["inert"] = (*keys.get("inert", ()), *self._who("inert"))
        keys["relays"] = (*keys.get("relays", ()), *self._who("relay"))
        keys["relays"] = (*keys["relays"], *self._agents(Policy(**keys), planners))
        viewers = frozenset(declared.entry.name for declared in self._declared if declared.entry.view)
        return Provenance(Policy(**keys), frozenset(quarantined), planners, self._memory(), viewers)

    def _memory(self) -> Mapping[str, Recall]:
        """For each listener how far its code remembers, where that is not the usual."""
        lifespan = self._document.data.get("lifespan")
        carries = isinstance(lifespan, dict) and lifespan.get("carries") is not None
        usual = Recall.SERVER if carries else Recall.LISTENER
        found = {}
        for declared in self._declared:
            said = declared.entry.memory or ("thread" if declared.entry.model else None)
            found[declared.entry.name] = usual if said is None else Recall(said)
        return {name: recall for name, recall in found.items() if recall is not Recall.LISTENER}

    def _who(self, word: str) -> tuple[str, ...]:
        return tuple(
            declared.entry.name
            for declared in self._declared
            if word in declared.entry.trust and not {"trust", "name"} & declared.faulty
        )

    def _agents(self, policy: Policy, planners: AbstractSet[str]) -> Iterator[str]:
        """Agents, planners and viewers that are no source: a model's words are no authority, even where it acts."""
        for declared in self._declared:
            name = declared.entry.name
            found = policy.classify(name)
            trusted = any(means(entry, name) for entry in policy.trusted)
            own = declared.entry.acts or declared.entry.view is not None or name in planners
            if own and not (trusted or found.relay or (found.known and found.source)):
                yield name

    def _contradicted(self, policy: Policy) -> None:
        for declared in self._declared:
            words, where = declared.entry.trust, declared.where("trust")
            for one, other in CONTRADICTIONS:
                if one in words and other in words:
                    self._report.error(
                        ConfigCode.PROVENANCE, where, f"a listener cannot be {one} and {other}"
                    )
            if declared.entry.view and "quarantined" in words:
                self._report.error(
                    ConfigCode.QUARANTINE,
                    declared.where("view"),
                    "a quarantined listener is there to read what references hide",
                )
            found = policy.classify(declared.entry.name)
            wanted = {"source": found.source, "sink": found.sink, "relay": found.relay, "inert": found.relay}
            wanted["planner"] = not found.source  # a stranger's words fix no plan
            denied = [word for word in words if not wanted.get(word, True)]
            for word in denied:
                self._report.error(
                    ConfigCode.PROVENANCE, where, f"{word}, but the policy says otherwise: {found.why}"
                )

    def _unplanned(self, made: Provenance) -> None:
        """Refuse a planner that is none, and point at a plan that nobody can make."""
        names = [declared.entry.name for declared in self._declared]
        if self._planner:
            where = self._document.where(("provenance", "planner"))
            found = made.policy.classify(self._planner)
            if self._planner not in names:
                told = f'"{self._planner}" means no listener'
                self._report.error(ConfigCode.NAME, where, told, did_you_mean(self._planner, names))
            elif found.source:
                self._report.error(
                    ConfigCode.PROVENANCE, where, f'"{self._planner}" fixes no plan: {found.why}'
                )
        elif not made.planners and made.policy.plan in {PlanSource.REQUIRED, PlanSource.CONFIRMED}:
            told = f"plan: {made.policy.plan.value}, and no listener is a planner, so no sink will ever run"
            self._report.warning(
                ConfigCode.PROVENANCE,
                self._document.where(("provenance",)),
                told,
                "planner: the listener that is one",
            )

    def _untyped(self, policy: Policy, bound: Sequence[BoundListener]) -> None:
        """Refuse a source that returns bytes: its text would choose the payload and what its fields are worth."""
        for item in bound:
            if item.returns_bytes and policy.classify(item.listener.name).source:
                where = Where(item.source.file, item.source.line)
                told = f'"{item.listener.name}" is a source and returns bytes, whose text chooses the payload class'
                self._report.error(ConfigCode.PROVENANCE, where, told, "return a HandlerResponse")

    def _undeclared(self, policy: Policy) -> None:
        """Name each listener that is judged as source and sink because nothing is declared of it."""
        for declared in self._declared:
            name = declared.entry.name
            if not policy.classify(name).known:
                told = (
                    f'nothing is declared of "{name}": its words are a stranger\'s, and it has consequences'
                )
                hint = "write trust: [source, sink] at it, or source, sink, trusted, inert or relay alone"
                self._report.warning(ConfigCode.PROVENANCE, declared.where("name"), told, hint)

    def _idle(self, policy: Policy) -> None:
        """Point at a policy that can never find anything."""
        classes = [policy.classify(declared.entry.name) for declared in self._declared]
        for word in ("source", "sink"):
            if not any(getattr(found, word) for found in classes):
                where = self._document.where(("provenance",))
                told = f"no listener is a {word}, so nothing will ever be found"
                self._report.warning(
                    ConfigCode.PROVENANCE, where, told, f"trust: {word} at the listener that is one"
                )


@dataclass(frozen=True, slots=True)
class _Check:
    """Refuse a name in a policy that means no listener and no field: a slip of the pen would switch a rule off."""

    policy: Policy
    parts: tuple[_Part, ...]
    bound: Sequence[BoundListener]
    handed: Mapping[str, AbstractSet[str]]
    report: Mistakes

    def run(self) -> None:
        """Report every name that means nothing. Not where listeners are missing: theirs would be among them."""
        if self.report.failed:
            return
        names = [item.listener.name for item in self.bound]
        for entry in self.policy.unused(names):
            self._error(ConfigCode.NAME, entry, f'"{entry}" means no listener', names)
        for entry in (*self.policy.allow, *self.policy.deny):
            name = entry.removeprefix("listener:")
            if name != entry and not any(means(name, known) for known in names):
                self._error(ConfigCode.NAME, entry, f'"{name}" means no listener', names)
        try:
            self._fields({item.listener.name: item for item in self.bound})
        except (TypeError, NameError):
            return  # the payload's own mistake, which the server names when it is put together

    def _fields(self, bound: dict[str, BoundListener]) -> None:
        everything = sorted({path for item in bound.values() for path in _paths(item.discovered)})
        named = (*(rule.field for rule in self.policy.fields), *(rule.field for rule in self.policy.readers))
        for rule in (rule for rule in self.policy.layouts if not rule.field):
            self._error(
                ConfigCode.PROVENANCE,
                rule.source,
                f'"{rule.source}" needs the field that holds the text',
                everything,
            )
        laid = tuple(rule.field for rule in self.policy.layouts if rule.field)
        for name in (*named, *laid):
            parts = any(name.startswith(f"{field}.") for field in laid)
            if not parts and not any(fnmatchcase(path, name) for path in everything):
                self._error(ConfigCode.NAME, name, f'"{name}" means no field of any payload', everything)
        for sink in self.policy.sinks or ():
            takers = [item for name, item in bound.items() if covers(sink.name, name)]
            fields_ = {path for item in takers for path in _paths(item.listener.payloads)}
            taken = sorted(fields_.union(*(self.handed.get(item.listener.name, ()) for item in takers)))
            known = [*taken, *(path.partition(".")[0] for path in taken)]
            for argument in sink.arguments:
                if takers and not any(fnmatchcase(path, argument.name) for path in known):
                    self._error(
                        ConfigCode.PROVENANCE,
                        argument.name,
                        f'"{argument.name}" means no field that {sink.name} takes',
                        taken,
                    )
                for entry in argument.accepts:
                    self._accepted(entry, bound, everything)

    def _accepted(self, entry: str, bound: Iterable[str], everything: Sequence[str]) -> None:
        if entry != "record" and not any(means(entry, f"{n}.{path}") for n in bound for path in everything):
            self._error(ConfigCode.NAME, entry, f'"{entry}" means no field of any listener', [])

    def _error(self, code: ConfigCode, entry: str, message: str, known: Iterable[str]) -> None:
        places = (
            part.where(loc) for part in self.parts for text, loc in _texts(part.values, ()) if text == entry
        )
        where = next(places, self.parts[-1].where(()))
        self.report.error(code, where, message, did_you_mean(entry, known))


def _handed(handoffs: Handoffs | None) -> Mapping[str, AbstractSet[str]]:
    """For each target the names of the values that it can be handed: they are judged as fields of its own."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for checked in () if handoffs is None else handoffs.vocabulary.intents.values():
        for target in checked.intent.targets:
            found[target].update(parameter.name for parameter in checked.intent.parameters)
    return found


def _paths(payloads: Iterable[type]) -> Iterator[str]:
    for payload in payloads:
        yield from paths(payload)


def _texts(value: Any, loc: Loc) -> Iterator[tuple[str, Loc]]:
    """Every key and every scalar below a value, with the way to it."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key, (*loc, key)
            yield from _texts(inner, (*loc, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _texts(item, (*loc, number))
    else:
        yield str(value), loc
