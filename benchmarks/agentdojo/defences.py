"""The defences that are compared, behind one small face."""

from __future__ import annotations

from datetime import date
from enum import Enum
from typing import TYPE_CHECKING, Any

import yaml
from agentdojo.agent_pipeline.tool_execution import tool_result_to_str

from agentserver.provenance.evidence.labels import Call, Observation
from agentserver.provenance.evidence.leaves import leaves
from agentserver.provenance.judgement import judge
from agentserver.provenance.ledger import Ledger
from agentserver.provenance.verdict import Decision
from benchmarks.agentdojo.plans import plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentserver.provenance.policy.declarations import Policy
    from agentserver.provenance.verdict import Verdict
    from benchmarks.agentdojo.variations.guise import Guise


class Defence:
    """No defence: every call runs."""

    name = "none"
    questions = 0
    benign = True

    def start(self, query: str, suite: str, task: str) -> None:
        """A new conversation, opened by the user's words; suite and task by AgentDojo's names."""

    def judge_call(self, tool: str, args: dict[str, Any]) -> str | None:  # noqa: ARG002  the face of all
        """Why a call is refused, or ``None``."""
        return None

    def observe_output(self, tool: str, args: dict[str, Any], result: Any) -> None:
        """The output of a call that ran."""

    def reads(self, wanted: str) -> bool:  # noqa: ARG002  the face of all
        """Tell whether the agent itself reads the injected goal, which is in the last output."""
        return True

    def can_relay(self, value: Any) -> bool:  # noqa: ARG002  the face of all
        """Tell whether an argument repeats somebody else's claim in a text that the agent is not shown."""
        return False


class Ours(Defence):
    """This engine, with one policy."""

    def __init__(self, name: str, policy: Policy) -> None:
        self.name, self.policy = name, policy

    def start(self, query: str, suite: str, task: str) -> None:  # noqa: ARG002  the face of all
        self.ledger, self.step = Ledger().ask(query), 0

    def judge_call(self, tool: str, args: dict[str, Any]) -> str | None:
        self.step += 1
        call = Call(tool, leaves(args), self.step)
        verdict = judge(self.ledger, self.policy, call)
        self.verdict = verdict
        if verdict.allowed:
            self.ledger = self.ledger.count_call(call)
            return None
        if verdict.decision is Decision.ASK and self.benign:
            self.questions += 1  # the account holder sees the question and approves
            return None
        # Findings are made when they are asked for, which takes longer than the decision: nobody reads an attack's.
        return format_finding(verdict) if self.benign else "refused"

    def observe_output(self, tool: str, args: dict[str, Any], result: Any) -> None:
        seen = Observation(tool, leaves(result), self.step, arguments=leaves(args))
        self.ledger = self.ledger.observe(self.policy, seen)


def format_finding(verdict: Verdict) -> str:
    """What a verdict found, in a line."""
    return "; ".join(
        f"{finding.rule} {finding.path}={finding.value[:40]!r} {finding.detail}"
        for finding in verdict.findings
    )


class PlannedEngine(Ours):
    """This engine, with one policy and a plan for each request that a planner would have made."""

    def __init__(self, name: str, policy: Policy, guise: Guise) -> None:
        super().__init__(name, policy)
        self.guise = guise

    def start(self, query: str, suite: str, task: str) -> None:
        super().start(query, suite, task)
        ledger = self.ledger.adopt(plan(suite, task, self.guise))
        assert ledger is not None, "nothing was seen yet"
        self.ledger = ledger

    def observe_output(self, tool: str, args: dict[str, Any], result: Any) -> None:
        super().observe_output(tool, args, with_fields(result, laid_out=bool(self.policy.layouts)))


def with_fields(result: Any, *, laid_out: bool) -> Any:
    """An output in which a plan can name its values: a text alone, or a list of them, gets a field.

    Where outputs are texts that a serialiser writes, a list of texts stays one.
    """
    if isinstance(result, str):
        said = _read(result) if laid_out else None
        if isinstance(said, list) and all(isinstance(item, str) for item in said):
            return yaml.safe_dump({"items": said})
        if isinstance(said, dict | list):
            return result
        return {"text": result}
    texts = isinstance(result, list) and all(isinstance(item, str) for item in result)
    return {"items": result} if texts else result


def _read(text: str) -> Any:
    try:
        return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError:
        return None


class AgentSleuth(Defence):
    """agent-sleuth 0.1.0 from the package index, as its own adapters drive it."""

    def __init__(self, name: str, make: Callable[[], Any], *, structured: bool) -> None:
        self.name, self.make, self.structured = name, make, structured

    def start(self, query: str, suite: str, task: str) -> None:  # noqa: ARG002  the face of all
        self.sleuth = self.make()
        self.sleuth.reset(query)

    def judge_call(self, tool: str, args: dict[str, Any]) -> str | None:
        from agent_sleuth import TaintViolationError

        try:
            self.sleuth.engine.on_tool_call(tool, args)
        except TaintViolationError as refused:
            return str(refused.violation.reason)
        return None

    def observe_output(self, tool: str, args: dict[str, Any], result: Any) -> None:  # noqa: ARG002  the face of all
        self.sleuth.engine.on_tool_result(tool, plain(result) if self.structured else as_text(result))


def as_text(result: Any) -> str:
    """An output as AgentDojo shows it to a model."""
    if isinstance(result, str):
        return result
    # A renamed output has mappings where AgentDojo has instances of its classes, which alone its own form takes.
    renamed = isinstance(result, list) and any(isinstance(item, dict) for item in result)
    return yaml.safe_dump(plain(result)).strip() if renamed else tool_result_to_str(result)


def plain(result: Any) -> Any:
    """An output as dictionaries, lists and scalars."""
    if hasattr(result, "model_dump"):
        return result.model_dump(mode="json")
    if isinstance(result, dict):
        return {key: plain(item) for key, item in result.items()}
    if isinstance(result, list):
        return [plain(item) for item in result]
    if isinstance(result, Enum):
        return result.value
    return result.isoformat() if isinstance(result, date) else result
