"""Values of completions by language models: prompts, answers, failures, backends and models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from agentserver.spending import NO_BUDGETS

if TYPE_CHECKING:
    from agentserver.spending import Budgets, Purse

Words: TypeAlias = Mapping[str, Any]
"""One message as a mapping: ``role``, ``content`` and the further fields of ``PromptMessage``."""


class Finish(StrEnum):
    """Ends of an answer: two of a whole one, the others of a partial one."""

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    FILTER = "filter"
    REFUSAL = "refusal"
    CUT = "cut"

    @property
    def complete(self) -> bool:
        """True when the model said all that it wanted to say."""
        return self in _WHOLE


_WHOLE = frozenset({Finish.STOP, Finish.TOOL_CALLS})


class CompletionFault(StrEnum):
    """Kinds of failure of a completion. The last ones mark a partial answer, by its ``Finish``."""

    RATE = "rate"
    UNAVAILABLE = "unavailable"
    TIMEOUT = "timeout"
    CONNECTION = "connection"
    SERVER = "server"
    MALFORMED = "malformed"
    QUOTA = "quota"
    CONTEXT = "context"
    CREDENTIALS = "credentials"
    REJECTED = "rejected"
    ANSWER = "answer"
    BUDGET = "budget"
    LENGTH = "length"
    FILTER = "filter"
    REFUSAL = "refusal"
    CUT = "cut"

    @property
    def passing(self) -> bool:
        """True when the same backend may succeed later."""
        return self in _PASSING

    @property
    def retryable_elsewhere(self) -> bool:
        """True when another backend may succeed."""
        return self not in _EVERYWHERE


_PASSING = frozenset(
    {
        CompletionFault.RATE,
        CompletionFault.UNAVAILABLE,
        CompletionFault.TIMEOUT,
        CompletionFault.CONNECTION,
        CompletionFault.SERVER,
        CompletionFault.MALFORMED,
        CompletionFault.CUT,
    }
)

_EVERYWHERE = frozenset({CompletionFault.BUDGET, CompletionFault.LENGTH})
"""Failures by a bound of the organism's own, which holds at each backend."""


_FREE = frozenset(
    {
        CompletionFault.RATE,
        CompletionFault.UNAVAILABLE,
        CompletionFault.QUOTA,
        CompletionFault.CONTEXT,
        CompletionFault.CREDENTIALS,
        CompletionFault.REJECTED,
        CompletionFault.BUDGET,
    }
)


@dataclass(frozen=True, slots=True)
class Attempt:
    """A question to one backend and its outcome.

    Args:
        backend: its name in the organism.
        fault: the kind of failure; None for an answer.
        status: of HTTP, where the backend sent one that is no success.
    """

    backend: str
    fault: CompletionFault | None = None
    status: int | None = None

    def __str__(self) -> str:
        if self.fault is None:
            return f"{self.backend} answered"
        answered = "" if self.status is None else f" answered {self.status}"
        return f"{self.backend}{answered} ({self.fault.value})"


class CompletionError(RuntimeError):
    """A completion that has no whole answer.

    Its text names the model, the kind of failure and the backends that were asked. It holds no word of a provider,
    which may have repeated a key.

    Args:
        fault: the kind.
        model: as the organism calls it.
        reason: details, worded by the server.
        after: seconds for which the provider wants to be left alone; None when it did not say.
        free: whether it certainly cost nothing.
        status: of HTTP, where the provider sent one that is no success.
        partial: the answer that is not whole; None without one.
        attempts: the backends that were asked, in order.
    """

    def __init__(  # noqa: PLR0913 - a keyword each
        self,
        fault: CompletionFault,
        model: str,
        reason: str = "",
        after: float | None = None,
        *,
        free: bool = False,
        status: int | None = None,
        partial: Completion | None = None,
        attempts: Sequence[Attempt] = (),
    ) -> None:
        super().__init__(f"the model {model}: {fault.value}" + (f": {reason}" if reason else ""))
        self.free = free or fault in _FREE
        self.fault = fault
        self.model = model
        self.reason = reason
        self.after = after
        self.status = status
        self.partial = partial
        self.attempts = tuple(attempts)


@dataclass(frozen=True, slots=True)
class Usage:
    """The cost of completions.

    Args:
        input_tokens: that the model read.
        output_tokens: that it wrote.
        calls: requests to a provider that were answered.
        money: their price in US dollars; None when no price is known of one of them.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    calls: int = 0
    money: float | None = 0.0

    @property
    def tokens(self) -> int:
        """Sum of tokens read and written."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        money = None if self.money is None or other.money is None else self.money + other.money
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.calls + other.calls,
            money,
        )


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that a model wants to have made.

    Args:
        id: under this id the model gets its result.
        name: of the tool, as the model wrote it.
        arguments: JSON text, as the model wrote it; nothing has checked it.
    """

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that a model may call.

    Args:
        name: ASCII letters, digits, ``_`` and ``-``, at most 64: all that providers take.
        description: of its effect, for the model.
        schema: JSON Schema of its arguments, an object.
    """

    name: str
    description: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """One message of a prompt.

    Args:
        role: the author. A ``tool`` message is the result of a call.
        content: its text.
        calls: of an ``assistant``, the calls that it made.
        id: of a ``tool``, the id of the call.
        name: of a ``tool``, its name.
    """

    role: Literal["system", "user", "assistant", "tool"]
    content: str = ""
    calls: tuple[ToolCall, ...] = ()
    id: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Prompt:
    """Content of one request to a provider.

    Args:
        messages: in order.
        tools: that the model may call.
        answer: the tool for its answer, unless it calls another one; None lets it write text.
        max_tokens: that it may write.
        settings: further settings of the model, as ``ModelChoice.settings``.
    """

    messages: tuple[PromptMessage, ...]
    tools: tuple[Tool, ...] = ()
    answer: Tool | None = None
    max_tokens: int = 4096
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Completion:
    """The answer of a model.

    Args:
        content: its text; empty when it only made calls.
        calls: the calls that it wants to have made.
        usage: its cost, repairs included.
        model: the provider's name for the model that answered.
        output: of a completion with ``output``, the value of that class; None when it made calls instead.
        finish: the end of the answer.
        attempts: the backends that were asked, in order; the last one answered.
    """

    content: str = ""
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    model: str = ""
    output: Any = None
    finish: Finish = Finish.STOP
    attempts: tuple[Attempt, ...] = ()


class PieceSink(Protocol):
    """Receiver of the pieces of a completion as they come. Its methods must neither wait nor raise."""

    def restart(self, reason: str) -> None:
        """Void the pieces so far: another attempt begins, for this reason."""

    def add_call(self, index: int, name: str, arguments: str) -> None:
        """Take a piece of the call at ``index`` of the answer: a part of its name and of its arguments as JSON."""


class AnswerWriter(Protocol):
    """Receiver of the text of an answer before it is committed. Its methods neither wait nor raise."""

    def write(self, text: str) -> None:
        """Show a further piece, if it may leave the server."""

    def reset(self, reason: str) -> None:
        """Void the pieces so far, for this reason."""


class Completer(Protocol):
    """Completes prompts with the models of an organism. A handler reaches it through its invocation."""

    async def complete(self, model: str, request: Request) -> Completion:
        """Ask a model. Raises CompletionError, LookupError for an unknown model, ValueError, TypeError."""


@dataclass(frozen=True, slots=True)
class Request:
    """A completion that code asks for.

    Args:
        messages: as mappings or PromptMessages.
        agent: its name for charges and records.
        until: the deadline of the invocation, by ``time.monotonic()``.
        tools: that the model may call; an ``@xmlify`` class is a tool of its name that takes its fields.
        output: the ``@xmlify`` class of the answer; or the tool that the model has to answer with, whose
            call then comes with the others.
        repairs: how often an answer that is not of the class is sent back.
        purse: charges each attempt; None charges none.
        prompt: SHA-256 of the text that the agent begins with, in hexadecimal, for the trace, or empty.
        partial: whether an answer that is not whole is an answer too.
        pieces: receives the answer as it comes, from backends with ``stream``; None for no receiver.
    """

    messages: Sequence[PromptMessage | Words]
    agent: str
    until: float
    tools: Sequence[Tool | type] = ()
    output: type | Tool | None = None
    repairs: int = 2
    purse: Purse | None = None
    prompt: str = ""
    partial: bool = False
    pieces: PieceSink | None = None


class RecordingExtent(StrEnum):
    """Extent to which completions are recorded with their conversation."""

    OFF = "off"
    METADATA = "metadata"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class PromptRecording:
    """Recording of completions with their conversations.

    Args:
        recorded: its extent.
        sample: the share of requests whose completions are recorded, from 0 to 1.
        retention: seconds for which a completion is stored, at most as long as its conversation.
        roles: the roles of principals that may read completions in the live view.
    """

    recorded: RecordingExtent = RecordingExtent.OFF
    sample: float = 1.0
    retention: float = 7 * 86400.0
    roles: frozenset[str] = frozenset({"operator"})


NOT_RECORDED = PromptRecording()


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """Tool as a model saw it; ``schema`` is JSON text, empty for an ``@xmlify`` class."""

    name: str
    description: str
    schema: str = ""


@dataclass(frozen=True, slots=True)
class CompletionContent:
    """Texts of a completion, without secrets. Long ones are truncated.

    Args:
        messages: of the prompt.
        tools: that the model could call.
        text: of the answer, whole or partial.
        calls: that the model made.
        output: the typed answer as JSON text, or empty.
    """

    messages: tuple[PromptMessage, ...]
    tools: tuple[OfferedTool, ...] = ()
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    output: str = ""


@dataclass(frozen=True, slots=True)
class RecordedCompletion:
    """Completion as it is stored with its conversation.

    Args:
        conversation: its id.
        request: the outside message that led to it.
        delivery: whose handler asked.
        listener: of that handler.
        model: as the organism calls it.
        at: when it began, in seconds since the epoch.
        took: seconds until the answer or the failure.
        answered_by: the provider's name for the model that answered; empty without an answer.
        finish: the end of the answer, whole or partial; None without one.
        fault: the kind of failure, or the class of an exception; empty if it succeeded.
        attempts: the backends that were asked, in order, with failures.
        usage: the cost of all answers, as far as it is known.
        tools: names of the tools that the model could call.
        messages: number of messages in the prompt.
        characters: of the prompt.
        digest: SHA-256 of the prompt's messages, in hexadecimal.
        content: the texts; None if only metadata are recorded.
    """

    conversation: str
    request: str
    delivery: str
    listener: str
    model: str
    at: float
    took: float
    answered_by: str = ""
    finish: Finish | None = None
    fault: str = ""
    attempts: tuple[Attempt, ...] = ()
    usage: Usage = Usage(calls=0)
    tools: tuple[str, ...] = ()
    messages: int = 0
    characters: int = 0
    digest: str = ""
    content: CompletionContent | None = None


Provider: TypeAlias = Literal["openai", "anthropic", "scripted"]
Strategy: TypeAlias = Literal["failover", "round-robin", "least-loaded"]


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars for a million tokens."""

    input: float
    output: float


@dataclass(frozen=True, slots=True)
class Backend:
    """A place that answers.

    Args:
        name: used by models.
        provider: the protocol that it speaks.
        model: the provider's name for the model.
        key: the secret that it requires, or empty.
        base_url: of the provider; None is its own.
        script: of ``scripted``, what answers: the parsed file, or a function.
        concurrency: requests at once.
        tokens_per_minute: tokens in any minute; None is as many as may be.
        timeout: seconds for one request.
        stream: whether answers come in pieces, which keeps a slow connection open.
        price: of its tokens; None leaves it to the table of the library.
        ceiling: the most that its tokens may cost, where there is a budget in money.
    """

    name: str
    provider: Provider
    model: str
    key: str = field(default="", repr=False)
    base_url: str | None = None
    script: Any = field(default=None, repr=False)
    concurrency: int = 8
    tokens_per_minute: int | None = None
    timeout: float = 120.0
    stream: bool = False
    price: Price | None = None
    ceiling: Price | None = None


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A model as handlers name it.

    Args:
        name: that handlers use.
        backends: in order.
        strategy: the choice among them.
        retries: further attempts at each backend that failed for now.
        max_tokens: that one answer may have.
        settings: such as ``temperature``, ``seed`` and ``effort``; others are sent to the provider as they are.
    """

    name: str
    backends: tuple[str, ...]
    strategy: Strategy = "failover"
    retries: int = 2
    max_tokens: int = 4096
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LanguageModels:
    """The backends and models of an organism, by name, with their budgets and the recording of completions."""

    backends: Mapping[str, Backend]
    models: Mapping[str, ModelChoice]
    budgets: Budgets = NO_BUDGETS
    prompts: PromptRecording = NOT_RECORDED


@dataclass(frozen=True, slots=True)
class AgentTool:
    """A message that a ready-made agent may send, as a tool of its model.

    Args:
        name: that the model calls it by.
        listener: that it goes to.
        payload: its class.
        description: what the listener does, for the model.
    """

    name: str
    listener: str
    payload: type
    description: str


@dataclass(frozen=True, slots=True)
class ReadyAgent:
    """The facts of a listener that is an agent by configuration.

    Args:
        model: its name in the organism.
        prompt: the text that it begins with, as it was when the organism was loaded.
        answer: the class of its answers.
        answers: the name of the tool for answers.
        tools: the messages that it may send to its peers.
        turns: calls of the model for one request.
        repairs: of these, calls that only correct an error of the model.
        history: bytes of the exchange with the model that a thread keeps.
        summary: the model that sums up what does not fit; None forgets it.
        references: whether it is shown references in place of untrusted values.
    """

    model: str
    prompt: str
    answer: type
    answers: str = "answer"
    tools: tuple[AgentTool, ...] = ()
    turns: int = 12
    repairs: int = 2
    history: int = 50_000
    summary: str | None = None
    references: bool = False

    @property
    def digest(self) -> str:
        """SHA-256 of the prompt, in hexadecimal."""
        return sha256(self.prompt.encode()).hexdigest()
