"""Engine of one run: judges calls, labels results, and raises on a refused call where the mode enforces.

Adapters report two events, a call and a result. The library's only clock and only callback are here.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from agentserver.characters.printing import one_line
from agentserver.provenance.evidence.labels import Call, Mode, Observation
from agentserver.provenance.evidence.leaves import leaves
from agentserver.provenance.exits import REFUSAL, count_bits
from agentserver.provenance.judgement import judge
from agentserver.provenance.judging.case import list_arguments
from agentserver.provenance.library.compat import IFCPolicy, TaintStore, TaintViolationError, Violation
from agentserver.provenance.policy.schemas import StatedRoles, read_schema
from agentserver.provenance.verdict import Decision

if TYPE_CHECKING:
    from agentserver.provenance.judging.case import Argument
    from agentserver.provenance.ledger import Ledger
    from agentserver.provenance.plans.arguments import AllowedStep
    from agentserver.provenance.policy.declarations import Policy
    from agentserver.provenance.verdict import Verdict

_log: Final = logging.getLogger("agentserver.provenance")

ALWAYS: Final = "always"
"""Answer that permits a call, and those that its explanation lists under *Always*."""

Confirm: TypeAlias = Callable[[Violation, str], "bool | str | Awaitable[bool | str]"]
"""Callback of ``confirm`` mode: takes the violation and its explanation; any other answer than these two denies."""

_UNSTATED: Final = StatedRoles()
"""Roles of a tool whose schema is unknown."""

OVERLAP: Final = 256
"""Characters of a stream that are labelled again with the next chunk, so that a span across the seam is found."""


def _warn(about: object) -> None:
    """Log a warning if the program has a handler. Otherwise Python would print it, and a record of it takes long."""
    if _log.hasHandlers():
        _log.warning("%s", about)


def describe_undeclared(name: str) -> str:
    """Describe how a tool without a declaration is judged, and the policy lines that would declare it."""
    shown = one_line(name)
    *all_but_last, last = (f"{key}: [{shown}]" for key in ("sources", "sinks", "trusted", "inert", "relays"))
    lines = f"{', '.join(all_but_last)} or {last}"
    return f"{shown} is not declared, so it is judged as source and sink; declare it: {lines}"


class _JudgedCall(NamedTuple):
    """Verdict on a call, with the policy and the arguments of its judgement.

    Args:
        verdict: the verdict.
        rules: the policy.
        arguments: the arguments of the call, with their rules.
    """

    verdict: Verdict
    rules: Policy
    arguments: tuple[Argument, ...]

    @property
    def is_question(self) -> bool:
        """True when a person must be asked."""
        return self.verdict.decision is Decision.ASK and not self.verdict.endorsed.value

    @property
    def passes(self) -> bool:
        """True when the call may run without a question."""
        return self.verdict.decision is not Decision.DENY

    def count_bits(self, ledger: Ledger) -> float:
        """Count the bits that the call reveals by its choices."""
        ruled = [(argument.leaf, argument.rule) for argument in self.arguments]
        return count_bits(ledger, self.rules, self.verdict.call, ruled)


@dataclass
class Engine:
    """Engine of one run: report ``on_tool_call`` before a tool runs, ``on_tool_result`` before its output is used."""

    policy: IFCPolicy | Policy
    store: TaintStore = field(default_factory=TaintStore)
    confirm_callback: Confirm | None = None
    confirm_timeout: float | None = None
    violations: list[Violation] = field(default_factory=list)
    undeclared: list[str] = field(default_factory=list)
    """Tools of this run without a declaration, each once; judged as source and sink. Only in ``enforce``."""
    schemas: dict[str, StatedRoles] = field(default_factory=dict)
    """Roles that the schemas of tools state; see ``describe_tool``."""
    clock: Callable[[], float] = time.time
    """Time of the run in seconds since 1970, by which days such as *on Friday* are read. A recorded run has its own."""
    _calling: bool = field(default=False, repr=False)
    """True if the last event was a call; its result belongs to the same step."""
    _lock: Lock = field(default_factory=Lock, repr=False)

    @property
    def rules(self) -> Policy:
        """Policy in the engine's own form."""
        return self.policy.policy() if isinstance(self.policy, IFCPolicy) else self.policy

    def set_query(self, query: str | None) -> None:
        """Add a text of the trusted principal. Text from anyone else must not be added."""
        if query is not None:
            with self._lock:
                self.store.ledger = self.store.ledger.ask(query)

    def describe_tool(self, name: str, schema: Mapping[str, Any]) -> None:
        """Add the JSON schema of a tool's arguments. A declared role has precedence.

        Formats of addresses make destinations. Formats of moments and enumerations count for tools that the policy
        lists under ``schemas``: pin the schemas of these, because whoever changes one loosens the policy.
        """
        found = read_schema(schema)
        with self._lock:
            self.schemas[name] = found

    def set_plan(self, steps: tuple[AllowedStep, ...]) -> bool:
        """Fix the plan of the run, before it reads untrusted text; extend the plan only after further trusted text.

        Args:
            steps: the result of ``read_plan``.

        Returns:
            True if the plan was accepted.
        """
        with self._lock:
            planned = self.store.known.adopt(steps)
            self.store.ledger = self.store.ledger if planned is None else planned
            return planned is not None

    def on_tool_call(self, name: str, args: Any, filled: frozenset[str] = frozenset()) -> Verdict:
        """Judge a pending call. ``filled`` names arguments that have the tool's own default.

        Returns:
            The verdict on a call that may run. Its findings are computed when they are read.

        Raises:
            TaintViolationError: the call must not run.
        """
        judged = self._judge(name, args, filled)
        if judged.is_question:
            return self._settle_answer(judged, self._confirm(judged.verdict))
        return self._settle(judged, allowed=judged.passes)

    async def acall(self, name: str, args: Any, filled: frozenset[str] = frozenset()) -> Verdict:
        """Judge a pending call as ``on_tool_call`` does, and await its confirmation."""
        judged = self._judge(name, args, filled)
        if judged.is_question:
            return self._settle_answer(judged, await self._aconfirm(judged.verdict))
        return self._settle(judged, allowed=judged.passes)

    def on_tool_result(
        self, name: str, output: Any, *, trace_id: str | None = None, arguments: Any = None
    ) -> None:
        """Label an output. ``arguments`` are the arguments of its call, which name the document that was requested."""
        with self._lock:
            rules = self.rules
            self._warn_if_undeclared(name, rules)
            self.store.step += not self._calling
            self._calling = False
            seen = Observation(
                source=name,
                leaves=leaves(output),
                step=self.store.step,
                time=self.clock(),
                arguments=leaves(arguments) if arguments is not None else (),
                trace=trace_id or f"{name}:{self.store.step}",
                unexposed=True,
            )
            self.store.observe(rules, seen)

    def _judge(self, name: str, args: Any, filled: frozenset[str]) -> _JudgedCall:
        with self._lock:
            rules, roles = self.rules, self.schemas.get(name, _UNSTATED)
            self._warn_if_undeclared(name, rules)
            self.store.step += 1
            self._calling = True
            call = Call(
                name,
                leaves(args),
                self.store.step,
                self.clock(),
                filled=filled,
                options=roles.options if rules.accepts_schema(name) else (),
                formats=roles.formats,
            )
            arguments = list_arguments(rules, call)
            return _JudgedCall(judge(self.store.known, rules, call, arguments), rules, arguments)

    def _warn_if_undeclared(self, name: str, rules: Policy) -> None:
        """Record and log a tool without a declaration when it first appears. Call it under the lock."""
        undeclared = not rules.classify(name).known and name not in self.undeclared
        if undeclared and rules.mode_of(name) is Mode.ENFORCE:
            self.undeclared.append(name)
            _warn(describe_undeclared(name))

    def _settle_answer(self, judged: _JudgedCall, answer: object) -> Verdict:
        """Permit or refuse a call by the answer of a person, and remember an endorsement."""
        if answer == ALWAYS and (pattern := judged.verdict.pattern.value) is not None:
            with self._lock:
                self.store.ledger = self.store.ledger.endorse(pattern.subject)
        return self._settle(judged, allowed=answer is True or answer == ALWAYS)

    def _settle(self, judged: _JudgedCall, *, allowed: bool) -> Verdict:
        verdict = judged.verdict
        with self._lock:
            ledger = self.store.ledger
            if allowed:
                ledger = ledger.carry(judged.count_bits(ledger))
                ledger = ledger.count_row(verdict.row.value) if verdict.row.value else ledger
                self.store.ledger = ledger.count_call(verdict.call)
            elif ledger.tainted:
                self.store.ledger = ledger.carry(REFUSAL)
        if allowed and not verdict.violated:
            return verdict
        violation = Violation(verdict, blocked=not allowed)
        self.violations.append(violation)
        _warn(violation)
        if not allowed:
            raise TaintViolationError(violation)
        return verdict

    def _confirm(self, verdict: Verdict) -> object:
        """Confirm a call; False without a callback, with one that must be awaited, or without an answer in time."""
        if self.confirm_callback is None:
            return False
        violation = Violation(verdict, blocked=True)
        if inspect.iscoroutinefunction(self.confirm_callback):
            return False
        if self.confirm_timeout is None:
            return self.confirm_callback(violation, violation.explain())
        pool = ThreadPoolExecutor(1)
        try:
            answer = pool.submit(self.confirm_callback, violation, violation.explain())
            return answer.result(self.confirm_timeout)
        except TimeoutError:
            return False
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    async def _aconfirm(self, verdict: Verdict) -> object:
        if self.confirm_callback is None:
            return False
        violation = Violation(verdict, blocked=True)
        try:
            async with asyncio.timeout(self.confirm_timeout):
                answer = await self._ask(violation)
                return await answer if inspect.isawaitable(answer) else answer
        except TimeoutError:
            return False

    async def _ask(self, violation: Violation) -> object:
        """Call the callback, in a thread if it would block the loop and so its own deadline."""
        assert self.confirm_callback is not None
        if self.confirm_timeout is None or inspect.iscoroutinefunction(self.confirm_callback):
            return self.confirm_callback(violation, violation.explain())
        return await asyncio.to_thread(self.confirm_callback, violation, violation.explain())
