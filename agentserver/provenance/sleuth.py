"""``Sleuth``: the one thing a developer wraps an agent in.

Owns run boundaries, the wrapping of tools, and the report. Refuses to touch the agent's own loop. Runs are
told apart by context, so concurrent runs do not mix; a run inside a run belongs to the outer one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Final

from agentserver.provenance.evidence.labels import Mode
from agentserver.provenance.library.compat import IFCPolicy, TaintStore, TaintViolationError
from agentserver.provenance.library.policy_file import load
from agentserver.provenance.library.queries import Query, trusted_texts
from agentserver.provenance.library.session import Confirm, Engine, undeclared
from agentserver.provenance.policy.declarations import PlanSource, Policy, SinkRule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from agentserver.provenance.adapters.langchain import IFCCallbackHandler
    from agentserver.provenance.library.compat import Violation

_RUNS: Final[ContextVar[Mapping[object, Engine] | None]] = ContextVar(
    "agentserver.provenance.runs", default=None
)
"""The run that each ``Sleuth`` is in, in this context: by a key that lives as long as its entry, as no ``id`` does."""


class Sleuth:
    """Watches an agent's tools.

    Args:
        agent: what ``run`` drives: an object with ``run``, ``invoke`` or ``ainvoke``, or a callable.
        untrusted: names of tools whose output is a stranger's.
        consequential: names of tools that do something. A tool in neither list is judged as both.
        destinations: recipients that are always allowed.
        denylist: recipients that never are.
        mode: ``audit``, ``confirm`` or ``enforce``; anything else is an error.
        policy: everything at once, instead of the lists; or the file that has it, by its path.
        strict: refuse every consequential call once anything untrusted was read.
        plan_mode: refuse every consequential call for which no plan was made (see ``Engine.set_plan``).
        confirm_callback: asked in ``confirm``; without it, ``confirm`` denies.
        confirm_timeout: seconds after which no answer is a no.

    Raises OSError and PolicyError for a file that has no policy, ValueError for arguments that contradict each other.
    """

    def __init__(  # noqa: PLR0913  the seed's signature
        self,
        agent: Any = None,
        untrusted: Sequence[str] | None = None,
        consequential: Sequence[str] | None = None,
        destinations: Sequence[str] | None = None,
        denylist: Sequence[str] | None = None,
        mode: str = Mode.AUDIT,
        policy: IFCPolicy | Policy | str | PathLike[str] | None = None,
        *,
        strict: bool = False,
        plan_mode: bool = False,
        confirm_callback: Confirm | None = None,
        confirm_timeout: float | None = None,
    ) -> None:
        self.agent = agent
        self.confirm_callback = confirm_callback
        self.confirm_timeout = confirm_timeout
        lists = (untrusted, consequential, destinations, denylist)
        if policy is not None and any(given is not None for given in lists):
            raise ValueError("give a policy or lists, not both")
        if isinstance(policy, str | PathLike):
            policy = load(fspath(policy))
        self.policy: IFCPolicy | Policy = policy or Policy(
            mode=Mode(mode),
            sources=tuple(untrusted or ()),
            sinks=tuple(SinkRule(name) for name in consequential or ()),
            allow=tuple(destinations or ()),
            deny=tuple(denylist or ()),
            strict=strict,
            plan=PlanSource.REQUIRED if plan_mode else PlanSource.OPTIONAL,
        )
        self._key = object()
        self._latest = self._engine()

    def _engine(self) -> Engine:
        return Engine(self.policy, TaintStore(), self.confirm_callback, self.confirm_timeout)

    @property
    def engine(self) -> Engine:
        """The engine of the run that this context is in, else of the latest one."""
        return (_RUNS.get() or {}).get(self._key) or self._latest

    @property
    def store(self) -> TaintStore:
        """The labels of the current run."""
        return self.engine.store

    @property
    def handler(self) -> IFCCallbackHandler:
        """A LangChain callback handler for whichever run is current when it is called."""
        from agentserver.provenance.adapters.langchain import IFCCallbackHandler

        return IFCCallbackHandler(self)

    def track(self, fn: Callable[..., Any], name: str | None = None) -> Callable[..., Any]:
        """Wraps one tool: sync, async, or a generator of either kind."""
        from agentserver.provenance.adapters.decorator import tracked_tool

        return tracked_tool(self, name=name)(fn)

    def reset(self, query: str | None = None) -> None:
        """Starts a run in this context: nothing seen, nothing found, ``query`` trusted."""
        engine = self._engine()
        engine.set_query(query)
        self._latest = engine
        _RUNS.set({**(_RUNS.get() or {}), self._key: engine})

    def run(self, query: Query, **kwargs: Any) -> Any:
        """Drives the agent from a fresh state. On a refusal, the explanation is the result.

        Args:
            query: what the principal says: a text, messages as dicts with ``role`` and ``content``, or a dict that has
                them under ``messages``. The texts of users among them are the trusted words; it reaches the agent as
                it is.
            kwargs: go to the agent.

        Raises:
            ValueError: there is no agent to run, or nothing of the query is a user's text.
        """
        drive = _sync_drive(self.agent)
        with self._boundary(query):
            try:
                return drive(query, self._wired(kwargs))
            except TaintViolationError as refused:
                return refused.rendered

    async def arun(self, query: Query, **kwargs: Any) -> Any:
        """``run`` for an event loop."""
        drive = _async_drive(self.agent)
        with self._boundary(query):
            try:
                return await drive(query, self._wired(kwargs))
            except TaintViolationError as refused:
                return refused.rendered

    @contextmanager
    def _boundary(self, query: Query) -> Iterator[None]:
        """A run inside a run adds no trusted words: its query may be a stranger's by now."""
        runs = _RUNS.get() or {}
        if self._key in runs:
            yield
            return
        engine = self._engine()
        for words in trusted_texts(query):
            engine.set_query(words)
        self._latest = engine
        token = _RUNS.set({**runs, self._key: engine})
        try:
            yield
        finally:
            _RUNS.reset(token)

    def _wired(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """The caller's keyword arguments, and our handler among the callbacks where the agent takes any."""
        if not _takes_callbacks(self.agent):
            return kwargs
        handler = self.handler
        config = dict(kwargs.pop("config", None) or {})
        given = [*(config.get("callbacks") or []), *(kwargs.pop("callbacks", None) or [])]
        return {**kwargs, "config": {**config, "callbacks": [*given, handler]}}

    @property
    def violations(self) -> list[dict[str, Any]]:
        """The findings of the current or latest run."""
        return [violation.to_dict() for violation in self.engine.violations]

    def report(self) -> str:
        """The current or latest run, told: ``✓ none``, or every trace; in ``enforce``, then each undeclared tool."""
        found: list[Violation] = self.engine.violations
        traces = [violation.explain() for violation in found]
        unknown = "\n".join(map(undeclared, self.engine.undeclared))
        told = f"Provenance violations: {len(found) or '✓ none'}"
        return "\n\n".join([told, *traces, *([unknown] if unknown else [])])


def _takes_callbacks(agent: Any) -> bool:
    """True when an agent speaks the Runnable protocol of LangChain."""
    return not hasattr(agent, "run") and (hasattr(agent, "invoke") or hasattr(agent, "ainvoke"))


def _framed(agent: Any, query: Query) -> Any:
    """The query in the shape that a Runnable takes: its channels, its keys or its own schema say which."""
    if not isinstance(query, str):
        return query if isinstance(query, Mapping) else {"messages": [*query]}
    wanted = getattr(agent, "channels", None) or getattr(agent, "input_keys", None)
    if wanted is None:
        schema = getattr(agent, "get_input_jsonschema", None)
        wanted = schema().get("properties", {}) if callable(schema) else {}
    if "messages" in wanted:
        return {"messages": [{"role": "user", "content": query}]}
    return {"input": query} if "input" in wanted else query


def _sync_drive(agent: Any) -> Callable[[Query, dict[str, Any]], Any]:
    if hasattr(agent, "run"):
        return lambda query, kwargs: _finished(agent.run(query, **kwargs))
    if hasattr(agent, "invoke"):
        return lambda query, kwargs: agent.invoke(_framed(agent, query), **kwargs)
    if hasattr(agent, "ainvoke"):
        return lambda query, kwargs: asyncio.run(agent.ainvoke(_framed(agent, query), **kwargs))
    if callable(agent):
        return lambda query, kwargs: _finished(agent(query, **kwargs))
    raise ValueError("there is no agent to run: pass agent=, or wrap the tools with track()")


def _finished(result: Any) -> Any:
    """The result of an agent whose ``run`` is async, for a caller that is not."""
    return asyncio.run(result) if asyncio.iscoroutine(result) else result


def _async_drive(agent: Any) -> Callable[[Query, dict[str, Any]], Any]:
    for name in ("ainvoke", "arun"):
        method = getattr(agent, name, None)
        if method is not None:
            framed = name == "ainvoke"
            return lambda query, kwargs: method(_framed(agent, query) if framed else query, **kwargs)
    drive = _sync_drive_raw(agent)

    async def driven(query: Query, kwargs: dict[str, Any]) -> Any:
        result = drive(query, kwargs)
        return await result if asyncio.iscoroutine(result) else result

    return driven


def _sync_drive_raw(agent: Any) -> Callable[[Query, dict[str, Any]], Any]:
    if hasattr(agent, "run"):
        return lambda query, kwargs: agent.run(query, **kwargs)
    if callable(agent):
        return lambda query, kwargs: agent(query, **kwargs)
    return _sync_drive(agent)
