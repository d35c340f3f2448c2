"""The names of the library that seed documents use, over this engine.

Owns ``IFCPolicy``, ``TaintStore``, ``TaintedValue``, ``Violation`` and ``TaintViolationError`` with the
fields and methods their documents give. Refuses to decide anything itself.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from agentserver.provenance.evidence.labels import Mode, Observation, Standing, Trust
from agentserver.provenance.evidence.leaves import leaves
from agentserver.provenance.explanation import explain
from agentserver.provenance.ledger import Ledger, steers
from agentserver.provenance.policy.declarations import PlanSource, Policy, SinkRule
from agentserver.provenance.policy.paths import covers
from agentserver.provenance.verdict import Decision

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentserver.provenance.verdict import Verdict


@dataclass(frozen=True, slots=True)
class TaintedValue:
    """A value with its label."""

    value: Any
    trust: Trust
    source: str
    trace_id: str
    created_at: float

    def is_tainted(self) -> bool:
        """True for a stranger's words."""
        return self.trust is Trust.UNTRUSTED


@dataclass
class IFCPolicy:
    """Lists of names: sources, sinks, destinations. An empty list names none."""

    untrusted_sources: Sequence[str]
    consequential_actions: Sequence[str]
    destination_allowlist: Sequence[str] = ()
    mode: str = Mode.AUDIT
    destination_denylist: Sequence[str] = ()
    strict: bool = False
    plan_mode: bool = False
    undeclared: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        self.mode = Mode(self.mode)

    def is_untrusted_source(self, tool_name: str) -> bool:
        """Exact, by glob or by its first whole tokens; every tool when made from defaults."""
        return self.undeclared or any(covers(entry, tool_name) for entry in self.untrusted_sources)

    def is_consequential(self, tool_name: str) -> bool:
        """Exact, by glob or by its first whole tokens; every tool when made from defaults."""
        return self.undeclared or any(covers(entry, tool_name) for entry in self.consequential_actions)

    @classmethod
    def from_defaults(cls, mode: str = Mode.AUDIT) -> IFCPolicy:
        """No lists: every tool is judged as source and as sink."""
        return cls([], [], mode=mode, undeclared=True)

    def policy(self) -> Policy:
        """The policy, as the engine understands it."""
        return Policy(
            mode=Mode(self.mode),
            sources=tuple(self.untrusted_sources),
            sinks=tuple(SinkRule(name) for name in self.consequential_actions),
            allow=tuple(self.destination_allowlist),
            deny=tuple(self.destination_denylist),
            strict=self.strict,
            plan=PlanSource.REQUIRED if self.plan_mode else PlanSource.OPTIONAL,
        )


class TaintStore:
    """The labels of one run. Holds the ledger; hand-made labels join it.

    ``steered``: a source's words were read that may steer the run, be they untrusted text or not.
    """

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.steered = False
        self.step = 0
        self._labelled: dict[str, TaintedValue] = {}

    def label(self, key: str, value: Any, trust: Trust, source: str) -> None:
        """Labels a value under a key. An untrusted one is tracked from now on."""
        self.step += 1
        self._labelled[key] = TaintedValue(value, trust, source, f"{source}:{self.step}", 0.0)
        if trust is Trust.UNTRUSTED:
            standing = Standing.PROSE
            tracked = tuple(type(leaf)(leaf.path, leaf.value, standing) for leaf in leaves(value))
            policy = Policy(sources=(source,))
            self.observe(policy, Observation(source, tracked, self.step))

    def observe(self, policy: Policy, seen: Observation) -> None:
        """Keeps an output. The run is one sender: what a source tells it steers every later call."""
        before = self.ledger
        self.ledger = before.observe(policy, seen)
        if policy.classify(seen.source).source and not self.steered:
            self.steered = steers(policy, seen.source, seen.leaves, before, self.ledger)

    @property
    def known(self) -> Ledger:
        """The ledger by which the run's calls are judged."""
        return self.ledger.suspect_foreign_text() if self.steered else self.ledger

    def get(self, key: str) -> TaintedValue | None:
        """The value that was labelled under a key."""
        return self._labelled.get(key)

    def get_run_trust(self) -> Trust:
        """The label of the run as a whole: untrusted dominates."""
        return Trust.UNTRUSTED if self.is_run_tainted() else Trust.TRUSTED

    def is_run_tainted(self) -> bool:
        """True when any untrusted text was seen, or another word of a source that may steer the run."""
        return self.known.tainted

    def reset(self, query: str | None = None) -> None:
        """Forgets everything; ``query`` is what the trusted principal now says."""
        self.ledger = Ledger().ask(query) if query is not None else Ledger()
        self.steered = False
        self.step = 0
        self._labelled = {}


@dataclass(frozen=True, slots=True)
class Violation:
    """One call that was refused or, in audit, merely seen. ``verdict`` has everything."""

    verdict: Verdict
    blocked: bool

    @property
    def reason(self) -> str:
        """The rule that fired first."""
        return str(self.verdict.violations[0].rule) if self.verdict.violations else "reported"

    def to_dict(self) -> dict[str, Any]:
        """The fields that traces are filtered by."""
        finding = (*self.verdict.violations, *self.verdict.findings)[0]
        origin = finding.evidence.text.origin if finding.evidence else None
        return {
            "sink_tool": self.verdict.call.sink,
            "sink_field": finding.path or None,
            "sink_arg_value": finding.value,
            "matched_value": finding.evidence.excerpt if finding.evidence else "",
            "source_tool": origin.source if origin else None,
            "source_step": origin.step if origin else None,
            "source_field_path": origin.path if origin else None,
            "destination": finding.value if finding.role and finding.role.value == "destination" else None,
            "mode": self.verdict.mode.value,
            "reason": str(finding.rule),
            "blocked": self.blocked,
            "hops": [asdict(hop) for hop in finding.evidence.hops] if finding.evidence else [],
        }

    def explain(self) -> str:
        """The trace, with what became of the call."""
        if self.blocked:
            return explain(self.verdict, became="deny")
        asked = self.verdict.decision is Decision.ASK
        return explain(self.verdict, became="approved" if asked else "")


class TaintViolationError(RuntimeError):
    """A call was refused. For the host program: an agent's model gets no more than that."""

    def __init__(self, violation: Violation) -> None:
        self.violation = violation
        self.rendered = violation.explain()
        super().__init__(self.rendered)
