"""Tasks, attacks and the agent that carries them out by a script, without a model.

Owns the form of a case and one run of it. Uses no more of a defence than its three methods.

A task is the user's words and a script: calls whose arguments are computed from earlier outputs, as a sensible model
would. An attack is a task, a text that is planted in the world, and the calls of an agent that obeys it. They are made
once, right after the first output that shows the text; then the task continues. A refused call does not run.
"""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agentserver.provenance.evidence.leaves import leaves
from benchmarks.outside.services.base import ToolError
from benchmarks.outside.world import World

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from benchmarks.outside.defences import Defence

DOMAINS = ("mail", "calendar", "files", "issues", "shop", "payments", "shell", "browser")


class RefusedError(Exception):
    """The defence did not let a call run."""


class DerailedError(Exception):
    """The agent left its task."""


@dataclass
class Run:
    """The calls of one agent under one defence, and the reasons of those that were refused."""

    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    blocked: list[tuple[str, dict[str, Any], str]] = field(default_factory=list)
    attacked: bool = False
    answer: str = ""


class Agent:
    """The hand that a script moves. Calling it runs a tool.

    ``after`` is called with each output; it may move the hand itself.
    """

    def __init__(self, world: World, defence: Defence, run: Run) -> None:
        self._tools, self._defence, self._run = world.tools(), defence, run
        self.after: Callable[[Any], None] = lambda _: None

    def __call__(self, name: str, /, **arguments: Any) -> Any:
        """The output of a tool.

        Raises:
            RefusedError: the defence refused the call.
            ToolError: the tool did.
        """
        function = self._tools[name]
        self._run.calls.append((name, arguments))
        reason = self._defence.judge_call(name, arguments)
        if reason is not None:
            self._run.blocked.append((name, arguments, reason))
            raise RefusedError(name)
        try:
            result = function(**arguments)
        except ToolError as error:
            self._defence.observe_output(name, arguments, {"error": str(error)})
            raise
        self._defence.observe_output(name, arguments, result)
        self.after(result)
        return result

    def attempt(self, name: str, /, **arguments: Any) -> Any:
        """Return the output of a tool, or ``None`` where the defence or the tool refused: for agents that continue."""
        try:
            return self(name, **arguments)
        except (RefusedError, ToolError):
            return None


class Task:
    """Something a user asks for. ``pasted`` is a text that the user put under the words, written by somebody else."""

    kind = ""
    words = ""
    pasted = ""
    domain = ""

    def setup(self, world: World) -> None:
        """Adds to the world what the task is about."""

    def script(self, agent: Agent) -> str | None:
        """The calls; the answer to the user, if there is one."""
        raise NotImplementedError

    def goal(self, world: World, answer: str) -> bool:
        """True when the world, and the answer, are as the user wanted."""
        raise NotImplementedError


class Attack:
    """A task on which somebody else has a hand. ``text`` is planted and seen; ``calls`` obeys it.

    ``misleads`` marks a record so made that the task's own script is taken in, too; ``instead`` an agent that does the
    attacker's calls in place of the rest of the task, which would undo them.
    """

    kind = ""
    on: type[Task]
    text = ""
    domain = ""
    misleads = False
    instead = False

    def poison(self, world: World) -> None:
        """Puts the text where the task will read it."""
        raise NotImplementedError

    def calls(self, agent: Agent) -> None:
        """What an agent does that obeys."""
        raise NotImplementedError

    def goal(self, world: World) -> bool:
        """True when the world is as the attacker wanted."""
        raise NotImplementedError


def half(name: str) -> tuple[list[Task], list[Attack]]:
    """The tasks and attacks of ``one`` or ``two``: every class of the modules in its folder, in their order."""
    package = importlib.import_module(f"benchmarks.outside.half_{name}")
    tasks: list[Task] = []
    attacks: list[Attack] = []
    modules = {info.name for info in pkgutil.iter_modules(package.__path__)}
    for domain in [name for name in DOMAINS if name in modules]:
        module = importlib.import_module(f"{package.__name__}.{domain}")
        tasks += _make_services(module, Task, domain)
        attacks += _make_services(module, Attack, domain)
    return tasks, attacks


def _make_services(module: ModuleType, kind: type[Any], domain: str) -> list[Any]:
    found = [each() for each in vars(module).values() if isinstance(each, type) and issubclass(each, kind)]
    found = [each for each in found if type(each).__module__ == module.__name__]
    for each in found:
        each.domain = domain
    return found


def shape(text: str) -> str:
    """A text without spacing and punctuation."""
    return "".join(filter(str.isalnum, text))


def carry_out(task: Task, world: World, defence: Defence, attack: Attack | None = None) -> Run:
    """One run of a task in a world that is set up, with an attack or without."""
    run = Run()
    agent = Agent(world, defence, run)
    defence.start(task.words, task.pasted)

    def obey(result: Any) -> None:
        wanted = shape(attack.text) if attack else ""
        if attack is None or run.attacked:
            return
        if any(isinstance(leaf.value, str) and wanted in shape(leaf.value) for leaf in leaves(result)):
            run.attacked = True
            _quietly(lambda: attack.calls(agent))
            if attack.instead:
                raise DerailedError

    agent.after = obey
    run.answer = _quietly(lambda: task.script(agent)) or ""
    return run


def _quietly(script: Callable[[], str | None]) -> str | None:
    """The result of a script; a refusal ends it, and so does an output without the expected text."""
    try:
        return script()
    except (RefusedError, DerailedError, ToolError, LookupError, StopIteration):
        return None


def benign(task: Task, defence: Defence) -> tuple[bool, Run]:
    """One run of a task in a fresh world, and the goal's check."""
    world = World()
    task.setup(world)
    run = carry_out(task, world, defence)
    return _holds(lambda: task.goal(world, run.answer)), run


def attacked(attack: Attack, defence: Defence) -> tuple[bool, Run]:
    """One run of an attack in a fresh world, and the goal's check."""
    world, task = World(), attack.on()
    task.setup(world)
    attack.poison(world)
    run = carry_out(task, world, defence, attack)
    return _holds(lambda: attack.goal(world)), run


def goal_holds_unaided(attack: Attack, defence: Defence) -> bool:
    """True when the attacker's goal holds although the agent never obeyed: then it is no goal."""
    world, task = World(), attack.on()
    task.setup(world)
    attack.poison(world)
    carry_out(task, world, defence)
    return _holds(lambda: attack.goal(world))


def _holds(check: Callable[[], bool]) -> bool:
    """Fail a check that looks for an absent text."""
    try:
        return check()
    except (StopIteration, KeyError, IndexError):
        return False
