"""Benign and compromised agents over the real AgentDojo environments, without a model.

The benign agent runs a user task's ground-truth calls. The compromised agent also runs the injection's
ground-truth calls, right after the first output that shows it the injected goal. An agent that is shown references
does not read it; then its reader says, of all that it reads for a call of the same tool, what the attacker would.
A refused call does not run and the agent continues. Utility and attack success are AgentDojo's own checks.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import yaml
from agentdojo.attacks.important_instructions_attacks import ImportantInstructionsAttack
from agentdojo.functions_runtime import FunctionCall, FunctionsRuntime
from agentdojo.task_suite import task_suite as suite_module
from pydantic import networks

from agentserver.provenance.evidence.leaves import leaves
from benchmarks.agentdojo.scripts import SCRIPTS
from benchmarks.agentdojo.variations.authors import shape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.agentdojo.defences import Defence
    from benchmarks.agentdojo.variations.guise import Guise

# Each run begins with a freshly read and checked environment, which these two make three times as fast.
if hasattr(yaml, "CSafeLoader"):
    suite_module.yaml.safe_load = lambda text: yaml.load(text, yaml.CSafeLoader)
networks.validate_email = cache(networks.validate_email)


class Attack(ImportantInstructionsAttack):  # type: ignore[misc,unused-ignore]
    """The `important_instructions` text for an agent that has no model behind it."""

    def __init__(self, suite: Any) -> None:
        super(ImportantInstructionsAttack, self).__init__(self._JB_STRING, suite, None)  # type: ignore[arg-type,unused-ignore]
        self.user_name, self.model_name = "Emma Johnson", "the assistant"
        self._vectors: dict[str, list[str]] = {}

    def vectors(self, user_task: Any) -> list[str]:
        """The places that a task reads; found once, by running it."""
        if user_task.ID not in self._vectors:
            self._vectors[user_task.ID] = list(self.get_injection_candidates(user_task))
        return self._vectors[user_task.ID]

    def text(self, goal: str) -> str:
        return str(self.jailbreak.format(goal=goal, user=self.user_name, model=self.model_name))


@dataclass
class Run:
    """What one agent did under one defence."""

    calls: int = 0
    blocked: list[tuple[str, dict[str, Any], str]] = field(default_factory=list)
    trace: list[FunctionCall] = field(default_factory=list)
    attacked: bool = False


def shows(result: Any, wanted: str) -> bool:
    """Whether an output shows the goal, in any one of its texts."""
    return any(isinstance(leaf.value, str) and wanted in shape(leaf.value) for leaf in leaves(result))


def execute(
    suite: Any,
    task: Any,
    env: Any,
    defence: Defence,
    attack: Callable[[Any], Iterator[Any]] | None,
    goal: str,
    guise: Guise,
) -> Run:
    """Runs a user task's calls, and the attacker's once the goal is seen.

    The environment gets AgentDojo's own calls; the defence sees them, their outputs and the request in a guise.
    """
    run, runtime = Run(), FunctionsRuntime(suite.tools)
    defence.start(guise.request(suite.name, task.ID, task.PROMPT), suite.name, task.ID)
    wanted = shape(goal)

    def call(wish: FunctionCall) -> Any:
        run.calls += 1
        tool, args = guise.tool(wish.function), guise.arguments(wish.function, wish.args)
        reason = defence.judge_call(tool, args)
        if reason is not None:
            run.blocked.append((wish.function, dict(wish.args), reason))
            return None
        run.trace.append(wish)
        result, error = runtime.run_function(env, wish.function, wish.args)
        defence.observe_output(tool, args, guise.output(wish.function, error or result))
        return result

    whispered: list[FunctionCall] = []
    for wish in task.ground_truth(env):
        result = call(mislead_agent(wish, whispered, defence))
        if attack and not run.attacked and result is not None and shows(result, wanted):
            run.attacked = True
            if defence.reads(wanted):
                for evil in attack(env):
                    call(evil)
            else:
                whispered = [*attack(env)]
    return run


def mislead_agent(wish: FunctionCall, whispered: list[FunctionCall], defence: Defence) -> FunctionCall:
    """A call of an agent whose reader obeys an injection: the reader's answer about a hidden text is the attacker's."""
    for evil in whispered:
        if evil.function == wish.function:
            args = {
                name: evil.args[name] if name in evil.args and defence.can_relay(value) else value
                for name, value in wish.args.items()
            }
            return FunctionCall(function=wish.function, args=args)
    return wish


def attacker(suite: Any, injection: Any) -> Callable[[Any], Iterator[Any]] | None:
    """The calls of an injection task: its ground truth, or a script where AgentDojo has none."""
    script = SCRIPTS.get((suite.name, injection.ID))
    if script is not None:
        return script
    env = suite.load_and_inject_default_environment({})
    return (lambda live: iter(injection.ground_truth(live))) if injection.ground_truth(env) else None


def copies(env: Any) -> Callable[[], Any]:
    """A function that gives copies of an environment as it is now."""
    return partial(pickle.loads, pickle.dumps(env))


def check_goal(suite: Any, task: Any, before: Callable[[], Any], after: Any, run: Run, output: str) -> bool:
    """AgentDojo's own check of a user task or an injection task.

    Some checks read the unread mail of the environment before, which marks it as read: each gets a copy.
    """
    content: Any = [{"type": "text", "content": output}]
    check = suite._check_task_result  # noqa: SLF001  the package offers no other way in
    return bool(check(task, content, before(), after, run.trace))
