"""``Sleuth``, the wrapper that tracks the tools of an agent.

Marks the boundaries of runs, wraps tools and reports; the agent's own loop stays as it is. Runs are separated by
context, so concurrent runs do not mix; a nested run belongs to the outer one.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from os import PathLike, fspath
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from agentserver.provenance.evidence.labels import Mode
from agentserver.provenance.library.compat import IFCPolicy, TaintStore, TaintViolationError, list_names
from agentserver.provenance.library.session import Confirm, Engine, describe_undeclared
from agentserver.provenance.policy.declarations import PlanSource, Policy, SinkRule
from agentserver.provenance.policy.file import PolicyError, YamlDocument, build_policy, read_yaml

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentserver.provenance.adapters.langchain import IFCCallbackHandler
    from agentserver.provenance.library.compat import Violation

Query: TypeAlias = str | Sequence[Mapping[str, Any]] | Mapping[str, Any]

USERS: Final = frozenset({"user", "human"})
_TEXTS: Final = ("input", "query", "question")
"""Keys that frameworks use for a single text."""


def trusted_texts(query: Query) -> tuple[str, ...]:
    """Return the user's texts of a query in order. Raises ValueError if it has none."""
    if isinstance(query, str):
        return (query,)
    messages = query
    if isinstance(query, Mapping):
        question = next((query[key] for key in _TEXTS if isinstance(query.get(key), str)), None)
        if question is not None:
            return (question,)
        messages = query.get("messages", ())
    listed = messages if isinstance(messages, Sequence) else ()
    found = tuple(text for each in listed if _is_from_user(each) for text in _content_texts(each))
    if not found:
        raise ValueError('the query has no text of a user: pass {"role": "user", "content": "..."}')
    return found


def _is_from_user(message: Any) -> bool:
    """Return whether a message names a user as its author; without a role it has no author."""
    if not isinstance(message, Mapping):
        return False
    return message.get("role", message.get("type")) in USERS


def _content_texts(message: Any) -> tuple[str, ...]:
    content = message.get("content")
    if isinstance(content, str):
        return (content,)
    parts = content if isinstance(content, Sequence) else ()
    texts = (part.get("text") if isinstance(part, Mapping) else part for part in parts)
    return tuple(text for text in texts if isinstance(text, str))


_log: Final = logging.getLogger("agentserver.provenance")

FOREIGN: Final[Mapping[str, str]] = MappingProxyType(
    {
        "untrusted_sources": "sources",
        "untrusted": "sources",
        "consequential_actions": "sinks",
        "consequential": "sinks",
        "destination_allowlist": "allow",
        "destinations": "allow",
        "allowlist": "allow",
        "destination_denylist": "deny",
        "denylist": "deny",
        "plan_mode": "plan",
    }
)
"""Keys of agent-sleuth and their names here."""
_PLANS: Final = MappingProxyType({"true": "required", "false": "optional"})


def load_policy(path: Path | str) -> Policy:
    """Load the policy in a file, and log each key of agent-sleuth with its name here.

    Raises:
        OSError: the file cannot be read.
        PolicyError: the file is invalid, or has two keys with one meaning.
    """
    name = str(path)
    try:
        text = Path(path).read_text("utf-8")
    except UnicodeDecodeError:
        raise PolicyError(f"{name}: is not UTF-8 text") from None
    return build_policy(_translate_keys(read_yaml(text, name), name), name)


def _translate_keys(document: YamlDocument, name: str) -> YamlDocument:
    if not isinstance(document.values, dict):
        return document
    values: dict[str, Any] = {}
    lines = dict(document.lines)
    for key, value in document.values.items():
        known = FOREIGN.get(key, key)
        if known in values:
            raise PolicyError(
                f"{name}:{document.find_line((key,))}: {key} repeats another key; write {known} once"
            )
        values[known] = _PLANS.get(str(value).lower(), value) if key == "plan_mode" else value
        if known != key:
            _log.warning("%s:%d: %s became %s", name, document.find_line((key,)), key, known)
            lines |= {(known, *loc[1:]): line for loc, line in document.lines.items() if loc[:1] == (key,)}
    return YamlDocument(values, lines)


_END: Final = object()
"""Result after the last chunk."""

_RUNS: Final[ContextVar[Mapping[object, Engine] | None]] = ContextVar(
    "agentserver.provenance.runs", default=None
)
"""Current run of each ``Sleuth`` in this context, by a key that lives as long as its entry, unlike an ``id``."""


class Sleuth:
    """Wrapper that watches an agent's tools.

    Args:
        agent: the agent that ``run`` drives: an object with ``run``, ``invoke`` or ``ainvoke``, or a callable.
        untrusted: names of tools whose output is written by strangers.
        consequential: names of tools that have effects. A tool in neither list is judged as both.
        destinations: recipients that are always allowed.
        denylist: recipients that are never allowed.
        mode: ``audit``, the default, ``confirm`` or ``enforce``; anything else is an error.
        policy: a complete policy, or the path of a file with one, instead of the lists, the mode and the two switches.
        strict: refuse every consequential call once anything untrusted was read.
        plan_mode: refuse every consequential call that has no plan (see ``Engine.set_plan``).
        confirm_callback: asked in ``confirm``; without it, ``confirm`` denies.
        confirm_timeout: seconds after which a missing answer means no.

    Raises OSError and PolicyError for a file that has no policy, ValueError for an unknown mode and for arguments that
    contradict each other, TypeError for a text in place of a list and for a policy of another type.
    """

    def __init__(  # noqa: PLR0913  the seed's signature
        self,
        agent: Any = None,
        untrusted: Sequence[str] | None = None,
        consequential: Sequence[str] | None = None,
        destinations: Sequence[str] | None = None,
        denylist: Sequence[str] | None = None,
        mode: str | None = None,
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
        parts = (untrusted, consequential, destinations, denylist, mode, strict or None, plan_mode or None)
        if policy is not None and any(argument is not None for argument in parts):
            raise ValueError("give a policy, or lists and a mode, not both: the policy has them")
        if isinstance(policy, str | PathLike):
            policy = load_policy(fspath(policy))
        if not isinstance(policy, IFCPolicy | Policy | None):
            raise TypeError(f"policy must be a Policy, an IFCPolicy or a path, not {type(policy).__name__}")
        self.policy: IFCPolicy | Policy = policy or Policy(
            mode=Mode.AUDIT if mode is None else Mode(mode),
            sources=list_names("untrusted", untrusted),
            sinks=tuple(map(SinkRule, list_names("consequential", consequential))),
            allow=list_names("destinations", destinations),
            deny=list_names("denylist", denylist),
            strict=strict,
            plan=PlanSource.REQUIRED if plan_mode else PlanSource.OPTIONAL,
        )
        self._key = object()
        self._latest = self._engine()
        self._active: list[Engine] = []
        self._lock = Lock()

    def _engine(self) -> Engine:
        return Engine(self.policy, TaintStore(), self.confirm_callback, self.confirm_timeout)

    @property
    def engine(self) -> Engine:
        """The engine of the run that this context is in, else of the only active run, else of the latest one.

        Raises RuntimeError outside of a run while several are active, since each of them has read other texts.
        """
        with self._lock:
            active = [*self._active] or [self._latest]
        known = (_RUNS.get() or {}).get(self._key)
        if known is None and len(active) > 1:
            raise RuntimeError(
                "several runs are active and this thread belongs to none: start it with"
                " contextvars.copy_context().run, or asyncio.to_thread"
            )
        return known or active[0]

    @property
    def _shown(self) -> Engine:
        """The engine of the run that this context is in, else of the latest one, for reports."""
        return (_RUNS.get() or {}).get(self._key) or self._latest

    @property
    def store(self) -> TaintStore:
        """The labels of the current run."""
        return self._shown.store

    @property
    def handler(self) -> IFCCallbackHandler:
        """A LangChain callback handler that uses the current run at each call."""
        from agentserver.provenance.adapters.langchain import IFCCallbackHandler

        return IFCCallbackHandler(self)

    def track(self, fn: Callable[..., Any], name: str | None = None) -> Callable[..., Any]:
        """Wrap one tool: sync, async, or a generator of either kind."""
        from agentserver.provenance.adapters.decorator import tracked_tool

        return tracked_tool(self, name=name)(fn)

    def reset(self, query: str | None = None) -> None:
        """Start a run in this context with an empty state, trusting ``query``."""
        engine = self._engine()
        engine.set_query(query)
        self._latest = engine
        _RUNS.set({**(_RUNS.get() or {}), self._key: engine})

    def run(self, query: Query, **kwargs: Any) -> Any:
        """Run the agent from a fresh state. If a call is refused, return the explanation.

        Args:
            query: the principal's words: a text, messages as dicts with ``role`` and ``content``, or a dict that has
                them under ``messages``. The texts of users among them are trusted. The agent gets the query unchanged.
            kwargs: keyword arguments for the agent.

        Raises:
            ValueError: there is no agent to run, or the query has no text of a user.
        """
        drive = _make_sync_driver(self.agent)
        with self._enter_run(query) as runs:
            try:
                result = drive(query, self._add_handler(kwargs))
            except TaintViolationError as refused:
                return refused.rendered
        return self._stream(result, runs)

    async def arun(self, query: Query, **kwargs: Any) -> Any:
        """Run the agent in an event loop; see ``run``."""
        drive = _make_async_driver(self.agent)
        with self._enter_run(query) as runs:
            try:
                result = await drive(query, self._add_handler(kwargs))
            except TaintViolationError as refused:
                return refused.rendered
        return self._stream(result, runs)

    def _stream(self, result: Any, runs: Mapping[object, Engine]) -> Any:
        """Keep the run of an agent that answers in chunks until the last one; return any other answer unchanged."""
        if isinstance(result, Iterator):
            return self._stream_sync(result, runs)
        return self._stream_async(result, runs) if isinstance(result, AsyncIterator) else result

    def _stream_sync(self, chunks: Iterator[Any], runs: Mapping[object, Engine]) -> Iterator[Any]:
        try:
            while True:
                with self._stay(runs):
                    chunk = next(chunks, _END)
                if chunk is _END:
                    return
                yield chunk
        except TaintViolationError as refused:
            yield refused.rendered
        finally:
            if isinstance(chunks, Generator):
                with self._stay(runs):  # it may call tools at its end
                    chunks.close()

    async def _stream_async(
        self, chunks: AsyncIterator[Any], runs: Mapping[object, Engine]
    ) -> AsyncIterator[Any]:
        try:
            while True:
                with self._stay(runs):
                    chunk = await anext(chunks, _END)
                if chunk is _END:
                    return
                yield chunk
        except TaintViolationError as refused:
            yield refused.rendered
        finally:
            if isinstance(chunks, AsyncGenerator):
                with self._stay(runs):
                    await chunks.aclose()

    @contextmanager
    def _enter_run(self, query: Query) -> Iterator[Mapping[object, Engine]]:
        """Enter a run. A nested run adds no trusted words, since a stranger may have written its query by now."""
        runs = _RUNS.get() or {}
        if self._key not in runs:
            engine = self._engine()
            for words in trusted_texts(query):
                engine.set_query(words)
            self._latest = engine
            runs = {**runs, self._key: engine}
        with self._stay(runs):
            yield runs

    @contextmanager
    def _stay(self, runs: Mapping[object, Engine]) -> Iterator[None]:
        """Work within a run, and count it as active."""
        entered = None if self._key in (_RUNS.get() or {}) else runs[self._key]
        token = _RUNS.set(runs)
        with self._lock:
            self._active += [] if entered is None else [entered]
        try:
            yield
        finally:
            with self._lock:
                self._active = [each for each in self._active if each is not entered]
            _RUNS.reset(token)

    def _add_handler(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Add our handler to the callbacks, if the agent accepts any."""
        if not _takes_callbacks(self.agent):
            return kwargs
        config = dict(kwargs.pop("config", None) or {})
        callbacks: Any = config.get("callbacks")
        more = [*(kwargs.pop("callbacks", None) or ()), self.handler]
        if hasattr(callbacks, "add_handler"):  # a manager, which knows more than its handlers
            callbacks = callbacks.copy()
            for each in more:
                callbacks.add_handler(each)
        else:
            callbacks = [*(callbacks or ()), *more]
        return {**kwargs, "config": {**config, "callbacks": callbacks}}

    @property
    def violations(self) -> list[dict[str, Any]]:
        """The findings of the current or latest run."""
        return [violation.to_dict() for violation in self._shown.violations]

    def report(self) -> str:
        """Report the current or latest run: ``✓ none`` or every trace, and in ``enforce`` each undeclared tool."""
        found: list[Violation] = self._shown.violations
        traces = [violation.explain() for violation in found]
        unknown = "\n".join(map(describe_undeclared, self._shown.undeclared))
        heading = f"Provenance violations: {len(found) or '✓ none'}"
        return "\n\n".join([heading, *traces, *([unknown] if unknown else [])])


def _takes_callbacks(agent: Any) -> bool:
    """Check whether an agent speaks the Runnable protocol of LangChain."""
    return not hasattr(agent, "run") and (hasattr(agent, "invoke") or hasattr(agent, "ainvoke"))


def _shape_query(agent: Any, query: Query) -> Any:
    """Shape the query as a Runnable expects it, by its channels, its keys or its own schema."""
    if not isinstance(query, str):
        return query if isinstance(query, Mapping) else {"messages": [*query]}
    inputs = getattr(agent, "channels", None) or getattr(agent, "input_keys", None)
    if inputs is None:
        schema = getattr(agent, "get_input_jsonschema", None)
        inputs = schema().get("properties", {}) if callable(schema) else {}
    if "messages" in inputs:
        return {"messages": [{"role": "user", "content": query}]}
    return {"input": query} if "input" in inputs else query


def _make_sync_driver(agent: Any) -> Callable[[Query, dict[str, Any]], Any]:
    if hasattr(agent, "run"):
        return lambda query, kwargs: _finish(agent.run(query, **kwargs))
    if hasattr(agent, "invoke"):
        return lambda query, kwargs: agent.invoke(_shape_query(agent, query), **kwargs)
    if hasattr(agent, "ainvoke"):
        return lambda query, kwargs: asyncio.run(agent.ainvoke(_shape_query(agent, query), **kwargs))
    if callable(agent):
        return lambda query, kwargs: _finish(agent(query, **kwargs))
    raise ValueError("there is no agent to run: pass agent=, or wrap the tools with track()")


def _finish(result: Any) -> Any:
    """Run an async result to its end, for a sync caller."""
    return asyncio.run(result) if inspect.iscoroutine(result) else result


def _make_async_driver(agent: Any) -> Callable[[Query, dict[str, Any]], Any]:
    ainvoke: Any = getattr(agent, "ainvoke", None)
    arun: Any = getattr(agent, "arun", None)
    drive = _make_raw_driver(agent) if ainvoke is None and arun is None else None

    async def drive_async(query: Query, kwargs: dict[str, Any]) -> Any:
        if drive is not None:
            result = drive(query, kwargs)
        elif ainvoke is not None:
            result = ainvoke(_shape_query(agent, query), **kwargs)
        else:
            result = arun(query, **kwargs)
        return await result if inspect.isawaitable(result) else result

    return drive_async


def _make_raw_driver(agent: Any) -> Callable[[Query, dict[str, Any]], Any]:
    if hasattr(agent, "run"):
        return lambda query, kwargs: agent.run(query, **kwargs)
    if callable(agent):
        return lambda query, kwargs: agent(query, **kwargs)
    return _make_sync_driver(agent)
