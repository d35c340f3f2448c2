"""The engine at its edge: one run's state, fed by calls and results, refusing where the mode says so.

Owns the order of the two events every adapter reports (a call, a result), confirmation, and what was found.
Refuses to know frameworks. The only clock and the only callback of the package's library face are here.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from agentserver.characters.printing import one_line
from agentserver.provenance.evidence.labels import Call, Mode, Observation
from agentserver.provenance.evidence.leaves import leaves
from agentserver.provenance.exits import count_bits
from agentserver.provenance.judgement import judge
from agentserver.provenance.library.compat import IFCPolicy, TaintStore, TaintViolationError, Violation
from agentserver.provenance.verdict import Decision

if TYPE_CHECKING:
    from agentserver.provenance.planned.arguments import AllowedStep
    from agentserver.provenance.policy.declarations import Policy
    from agentserver.provenance.verdict import Verdict

_log: Final = logging.getLogger("agentserver.provenance")
_log.addHandler(logging.NullHandler())

Confirm: TypeAlias = Callable[[Violation, str], "bool | Awaitable[bool]"]
"""Asked in ``confirm`` with the violation and its explanation. Anything but ``True`` denies."""

OVERLAP: Final = 256
"""Characters of a stream that are labelled again with its next chunk, so that no span hides in a seam."""


def undeclared(name: str) -> str:
    """Nothing is declared of a tool: its consequence, and the line of a policy that says otherwise."""
    shown = one_line(name)
    *most, last = (f"{key}: [{shown}]" for key in ("sources", "sinks", "trusted", "inert", "relays"))
    lines = f"{', '.join(most)} or {last}"
    return f"nothing is declared of {shown}, so it is judged as source and sink; write what it is: {lines}"


@dataclass
class Engine:
    """``on_tool_call`` before a tool runs, ``on_tool_result`` before its output is handed on."""

    policy: IFCPolicy | Policy
    store: TaintStore = field(default_factory=TaintStore)
    confirm_callback: Confirm | None = None
    confirm_timeout: float | None = None
    violations: list[Violation] = field(default_factory=list)
    undeclared: list[str] = field(default_factory=list)
    """In ``enforce``, the tools of this run of which nothing is declared, each once: judged as source and sink."""
    _calling: bool = field(default=False, repr=False)
    """True when the last event was a call: its result belongs to the same step."""
    _lock: Lock = field(default_factory=Lock, repr=False)

    @property
    def rules(self) -> Policy:
        """The policy in the engine's own form."""
        return self.policy.policy() if isinstance(self.policy, IFCPolicy) else self.policy

    def set_query(self, query: str | None) -> None:
        """Adds what the trusted principal said. Only a principal's own words belong here."""
        if query is not None:
            with self._lock:
                self.store.ledger = self.store.ledger.ask(query)

    def set_plan(self, steps: tuple[AllowedStep, ...]) -> bool:
        """Fixes what the run may do, before anything untrusted is read; more of it only after more trusted words.

        Args:
            steps: as ``read_plan`` gives them.

        Returns:
            True when the plan counts.
        """
        with self._lock:
            planned = self.store.known.adopt(steps)
            self.store.ledger = self.store.ledger if planned is None else planned
            return planned is not None

    def on_tool_call(self, name: str, args: Any, filled: frozenset[str] = frozenset()) -> Violation | None:
        """Judges a pending call. ``filled`` names arguments that have the tool's own default.

        Returns:
            What was found, or ``None``.

        Raises:
            TaintViolationError: the call must not run.
        """
        verdict = self._judge(name, args, filled)
        if verdict.decision is not Decision.ASK:
            return self._settle(verdict, allowed=verdict.allowed)
        return self._settle(verdict, allowed=self._asked(verdict))

    async def acall(self, name: str, args: Any, filled: frozenset[str] = frozenset()) -> Violation | None:
        """``on_tool_call`` where an answer may be awaited."""
        verdict = self._judge(name, args, filled)
        if verdict.decision is not Decision.ASK:
            return self._settle(verdict, allowed=verdict.allowed)
        return self._settle(verdict, allowed=await self._aasked(verdict))

    def on_tool_result(
        self, name: str, output: Any, *, trace_id: str | None = None, arguments: Any = None
    ) -> None:
        """Labels an output. ``arguments`` are those of its call: they tell which document was asked for."""
        with self._lock:
            self._declared(name)
            self.store.step += not self._calling
            self._calling = False
            seen = Observation(
                source=name,
                leaves=leaves(output),
                step=self.store.step,
                time=time.time(),
                arguments=leaves(arguments) if arguments is not None else (),
                trace=trace_id or f"{name}:{self.store.step}",
            )
            self.store.observe(self.rules, seen)

    def _judge(self, name: str, args: Any, filled: frozenset[str]) -> Verdict:
        with self._lock:
            self._declared(name)
            self.store.step += 1
            self._calling = True
            call = Call(name, leaves(args), self.store.step, time.time(), filled=filled)
            return judge(self.store.known, self.rules, call)

    def _declared(self, name: str) -> None:
        """Note and log a tool of which nothing is declared, when it is first met. Under the lock."""
        rules = self.rules
        if (
            rules.mode_of(name) is Mode.ENFORCE
            and not rules.classify(name).known
            and name not in self.undeclared
        ):
            self.undeclared.append(name)
            _log.warning("%s", undeclared(name))

    def _settle(self, verdict: Verdict, *, allowed: bool) -> Violation | None:
        if allowed:
            with self._lock:
                ledger = self.store.ledger
                ledger = ledger.carry(count_bits(ledger, self.rules, verdict.call))
                self.store.ledger = ledger.count_call(verdict.call)
        if not verdict.findings:
            return None
        violation = Violation(verdict, blocked=not allowed)
        if verdict.violations or not allowed:
            self.violations.append(violation)
            _log.warning("%s", violation.explain())
        if not allowed:
            raise TaintViolationError(violation)
        return violation

    def _asked(self, verdict: Verdict) -> bool:
        """No: without a person to ask, without an answer in time, or with a callback that can only be awaited."""
        if self.confirm_callback is None:
            return False
        waiting = Violation(verdict, blocked=True)
        if inspect.iscoroutinefunction(self.confirm_callback):
            return False
        if self.confirm_timeout is None:
            return self.confirm_callback(waiting, waiting.explain()) is True
        pool = ThreadPoolExecutor(1)
        try:
            answer = pool.submit(self.confirm_callback, waiting, waiting.explain())
            return answer.result(self.confirm_timeout) is True
        except TimeoutError:
            return False
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    async def _aasked(self, verdict: Verdict) -> bool:
        if self.confirm_callback is None:
            return False
        waiting = Violation(verdict, blocked=True)
        try:
            async with asyncio.timeout(self.confirm_timeout):
                answer = self.confirm_callback(waiting, waiting.explain())
                return (await answer if inspect.isawaitable(answer) else answer) is True
        except TimeoutError:
            return False
