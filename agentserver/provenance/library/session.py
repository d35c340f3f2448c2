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
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from agentserver.characters.printing import one_line
from agentserver.provenance.evidence.labels import Call, Mode, Observation
from agentserver.provenance.evidence.leaves import leaves
from agentserver.provenance.exits import REFUSAL, count_bits
from agentserver.provenance.judgement import judge
from agentserver.provenance.library.compat import IFCPolicy, TaintStore, TaintViolationError, Violation
from agentserver.provenance.policy.schemas import StatedRoles, read_schema
from agentserver.provenance.verdict import Decision

if TYPE_CHECKING:
    from agentserver.provenance.plans.arguments import AllowedStep
    from agentserver.provenance.policy.declarations import Policy
    from agentserver.provenance.verdict import Verdict

_log: Final = logging.getLogger("agentserver.provenance")
_log.addHandler(logging.NullHandler())

ALWAYS: Final = "always"
"""Answer that permits a call, and those that its explanation lists under *Always*."""

Confirm: TypeAlias = Callable[[Violation, str], "bool | str | Awaitable[bool | str]"]
"""Callback of ``confirm`` mode: takes the violation and its explanation; any other answer than these two denies."""

OVERLAP: Final = 256
"""Characters of a stream that are labelled again with the next chunk, so that a span across the seam is found."""


def describe_undeclared(name: str) -> str:
    """Describe how a tool without a declaration is judged, and the policy lines that would declare it."""
    shown = one_line(name)
    *all_but_last, last = (f"{key}: [{shown}]" for key in ("sources", "sinks", "trusted", "inert", "relays"))
    lines = f"{', '.join(all_but_last)} or {last}"
    return f"{shown} is not declared, so it is judged as source and sink; declare it: {lines}"


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

    def on_tool_call(self, name: str, args: Any, filled: frozenset[str] = frozenset()) -> Violation | None:
        """Judge a pending call. ``filled`` names arguments that have the tool's own default.

        Returns:
            The violation, or ``None``.

        Raises:
            TaintViolationError: the call must not run.
        """
        verdict = self._judge(name, args, filled)
        if verdict.decision is not Decision.ASK or verdict.endorsed.value:
            return self._settle(verdict, allowed=verdict.allowed or verdict.endorsed.value)
        return self._settle_answer(verdict, self._confirm(verdict))

    async def acall(self, name: str, args: Any, filled: frozenset[str] = frozenset()) -> Violation | None:
        """Judge a pending call as ``on_tool_call`` does, and await its confirmation."""
        verdict = self._judge(name, args, filled)
        if verdict.decision is not Decision.ASK or verdict.endorsed.value:
            return self._settle(verdict, allowed=verdict.allowed or verdict.endorsed.value)
        return self._settle_answer(verdict, await self._aconfirm(verdict))

    def on_tool_result(
        self, name: str, output: Any, *, trace_id: str | None = None, arguments: Any = None
    ) -> None:
        """Label an output. ``arguments`` are the arguments of its call, which name the document that was requested."""
        with self._lock:
            self._warn_if_undeclared(name)
            self.store.step += not self._calling
            self._calling = False
            seen = Observation(
                source=name,
                leaves=leaves(output),
                step=self.store.step,
                time=time.time(),
                arguments=leaves(arguments) if arguments is not None else (),
                trace=trace_id or f"{name}:{self.store.step}",
                unexposed=True,
            )
            self.store.observe(self.rules, seen)

    def _judge(self, name: str, args: Any, filled: frozenset[str]) -> Verdict:
        with self._lock:
            self._warn_if_undeclared(name)
            self.store.step += 1
            self._calling = True
            rules, roles = self.rules, self.schemas.get(name, StatedRoles())
            call = Call(
                name,
                leaves(args),
                self.store.step,
                time.time(),
                filled=filled,
                options=roles.options if rules.accepts_schema(name) else (),
                formats=roles.formats,
            )
            return judge(self.store.known, rules, call)

    def _warn_if_undeclared(self, name: str) -> None:
        """Record and log a tool without a declaration when it first appears. Call it under the lock."""
        rules = self.rules
        if (
            rules.mode_of(name) is Mode.ENFORCE
            and not rules.classify(name).known
            and name not in self.undeclared
        ):
            self.undeclared.append(name)
            _log.warning("%s", describe_undeclared(name))

    def _settle_answer(self, verdict: Verdict, answer: object) -> Violation | None:
        """Permit or refuse a call by the answer of a person, and remember an endorsement."""
        if answer == ALWAYS and (pattern := verdict.pattern.value) is not None:
            with self._lock:
                self.store.ledger = self.store.ledger.endorse(pattern.subject)
        return self._settle(verdict, allowed=answer is True or answer == ALWAYS)

    def _settle(self, verdict: Verdict, *, allowed: bool) -> Violation | None:
        with self._lock:
            ledger = self.store.ledger
            if allowed:
                ledger = ledger.carry(count_bits(ledger, self.rules, verdict.call))
                ledger = ledger.count_row(verdict.row.value) if verdict.row.value else ledger
                self.store.ledger = ledger.count_call(verdict.call)
            elif ledger.tainted:
                self.store.ledger = ledger.carry(REFUSAL)
        if not verdict.findings:
            return None
        violation = Violation(verdict, blocked=not allowed)
        if verdict.violations or not allowed:
            self.violations.append(violation)
            _log.warning("%s", violation.explain())
        if not allowed:
            raise TaintViolationError(violation)
        return violation

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
                answer = self.confirm_callback(violation, violation.explain())
                return await answer if inspect.isawaitable(answer) else answer
        except TimeoutError:
            return False
