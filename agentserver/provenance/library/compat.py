"""Public names of the earlier agent-sleuth library, as thin forms over this engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from agentserver.provenance.evidence.labels import Mode, Observation, Standing, Trust, covers
from agentserver.provenance.evidence.leaves import leaves
from agentserver.provenance.ledger import Ledger, steers
from agentserver.provenance.policy.declarations import PlanSource, Policy, SinkRule
from agentserver.provenance.verdict import Decision, explain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentserver.provenance.verdict import Verdict


def list_names(argument: str, names: Sequence[str] | None) -> tuple[str, ...]:
    """List the names of an argument. Raises TypeError for a text, whose letters would be the names."""
    if isinstance(names, str):
        raise TypeError(f"{argument} must be a list of names: [{names!r}]")
    return tuple(names or ())


@dataclass(frozen=True, slots=True)
class TaintedValue:
    """Value with its label."""

    value: Any
    trust: Trust
    source: str
    trace_id: str
    created_at: float

    def is_tainted(self) -> bool:
        """Return whether a stranger wrote the value."""
        return self.trust is Trust.UNTRUSTED


@dataclass
class IFCPolicy:
    """Policy as lists of the names of sources, sinks and destinations. An empty list names none."""

    untrusted_sources: Sequence[str]
    consequential_actions: Sequence[str]
    destination_allowlist: Sequence[str] = ()
    mode: str = Mode.AUDIT
    destination_denylist: Sequence[str] = ()
    strict: bool = False
    plan_mode: bool = False
    undeclared: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        """Check the mode and the lists. Raises ValueError for an unknown mode, TypeError for a text as a list."""
        self.mode = Mode(self.mode)
        for name in (
            "untrusted_sources",
            "consequential_actions",
            "destination_allowlist",
            "destination_denylist",
        ):
            list_names(name, getattr(self, name))

    def is_untrusted_source(self, tool_name: str) -> bool:
        """Match a tool's name exactly, by glob or by its first whole tokens; always true after ``from_defaults``."""
        return self.undeclared or any(covers(entry, tool_name) for entry in self.untrusted_sources)

    def is_consequential(self, tool_name: str) -> bool:
        """Match a tool's name exactly, by glob or by its first whole tokens; always true after ``from_defaults``."""
        return self.undeclared or any(covers(entry, tool_name) for entry in self.consequential_actions)

    @classmethod
    def from_defaults(cls, mode: str = Mode.AUDIT) -> IFCPolicy:
        """Build a policy without lists, which judges every tool as source and as sink."""
        return cls([], [], mode=mode, undeclared=True)

    def policy(self) -> Policy:
        """Convert it to the engine's own form."""
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
    """Labels and ledger of one run. Hand-made labels join the ledger.

    ``steered``: the run has read text that may steer it, untrusted or not.
    """

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.steered = False
        self.step = 0
        self._labelled: dict[str, TaintedValue] = {}

    def label(self, key: str, value: Any, trust: Trust, source: str) -> None:
        """Label a value under a key. An untrusted value is tracked from now on."""
        self.step += 1
        self._labelled[key] = TaintedValue(value, trust, source, f"{source}:{self.step}", 0.0)
        if trust is Trust.UNTRUSTED:
            standing = Standing.PROSE
            tracked = tuple(type(leaf)(leaf.path, leaf.value, standing) for leaf in leaves(value))
            policy = Policy(sources=(source,))
            self.observe(policy, Observation(source, tracked, self.step))

    def observe(self, policy: Policy, seen: Observation) -> None:
        """Record an output. The run is a single sender, so text of a source steers every later call."""
        before = self.ledger
        self.ledger = before.observe(policy, seen)
        if policy.classify(seen.source).source and not self.steered:
            self.steered = steers(policy, seen.source, seen.leaves, before, self.ledger)

    @property
    def known(self) -> Ledger:
        """Ledger that judges the run's calls."""
        return self.ledger.suspect_foreign_text() if self.steered else self.ledger

    def get(self, key: str) -> TaintedValue | None:
        """Return the value that was labelled under a key."""
        return self._labelled.get(key)

    def get_run_trust(self) -> Trust:
        """Return the label of the whole run: untrusted once it is tainted."""
        return Trust.UNTRUSTED if self.is_run_tainted() else Trust.TRUSTED

    def is_run_tainted(self) -> bool:
        """Return whether the run has read untrusted text, or any text that may steer it."""
        return self.known.tainted

    def reset(self, query: str | None = None) -> None:
        """Clear the run; ``query`` is the next text of the trusted principal."""
        self.ledger = Ledger().ask(query) if query is not None else Ledger()
        self.steered = False
        self.step = 0
        self._labelled = {}


@dataclass(frozen=True, slots=True)
class Violation:
    """Call that was refused, or reported in audit mode. ``verdict`` has the details, which are computed when read."""

    verdict: Verdict
    blocked: bool

    @property
    def reason(self) -> str:
        """First rule that was violated."""
        return str(self.verdict.violations[0].rule) if self.verdict.violations else "reported"

    def to_dict(self) -> dict[str, Any]:
        """Export the fields that filter traces."""
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
            "hops": [hop._asdict() for hop in finding.evidence.hops] if finding.evidence else [],
        }

    def __str__(self) -> str:
        """Return the explanation, so that a log that nobody formats costs none."""
        return self.explain()

    def explain(self) -> str:
        """Explain the violation and whether the call ran."""
        if self.blocked:
            return explain(self.verdict, became="deny")
        was_asked = self.verdict.decision is Decision.ASK
        return explain(self.verdict, became="approved" if was_asked else "")


REFUSED: Final = "The call was not permitted."
"""All that an agent learns of a refused call."""


class TaintViolationError(RuntimeError):
    """Refusal of a call. Its text is the same for all, since frameworks show it to the agent's model.

    ``rendered`` is the explanation, which is for the host program alone; it is computed when it is read.
    """

    def __init__(self, violation: Violation) -> None:
        self.violation = violation
        super().__init__(REFUSED)

    @cached_property
    def rendered(self) -> str:
        """Explanation of the refusal."""
        return self.violation.explain()
