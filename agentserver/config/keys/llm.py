"""Keys below ``llm:`` and ``agent:``, and the form of a script."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from agentserver.completion import (
    NOT_RECORDED,
    Backend,
    CompletionFault,
    Finish,
    ModelChoice,
    Provider,
    RecordingExtent,
    Strategy,
)
from agentserver.config.keys.fields import Deadline, Line, Name, RelativePath, Retention, Strict

_BACKEND = Backend("", "scripted", "")
_MODEL = ModelChoice("", ())
_PROMPTS = NOT_RECORDED
_TURNS, _REPAIRS, _HISTORY = 12, 2, 50_000

_SETTINGS_OF_SERVER = frozenset(
    {
        "model", "messages", "system", "prompt", "tools", "tool_choice", "functions", "function_call", "stream",
        "stream_options", "max_tokens", "max_completion_tokens", "n", "best_of", "response_format", "output_format",
    }
)  # fmt: skip
"""Members of a request that the server sets itself, or that would make one answer cost as much as several."""


def _check_settings(settings: dict[str, Any]) -> dict[str, Any]:
    reserved = sorted(_SETTINGS_OF_SERVER.intersection(settings))
    if reserved:
        raise ValueError(f'"{reserved[0]}" is set by the server')
    return settings


_Url: TypeAlias = Annotated[str, Field(pattern=r"^https?://[^\s@?#]+$", max_length=1000)]
_Dollars = Annotated[float, Field(ge=0, le=1e6)]


class BackendEntry(Strict):
    """Place that answers requests for a model."""

    name: Name = Field(description="The name that models refer to.")
    provider: Provider = Field(
        description="The protocol: openai, which most servers and gateways speak (with a base_url), anthropic, or "
        "scripted, which answers from a file without any request."
    )
    model: Line = Field(default="script", description="The provider's name for the model.")
    key: str | None = Field(
        default=None,
        min_length=1,
        repr=False,
        description="The API key: ${NAME} of the environment, or ${file:path}; never the secret itself.",
        examples=["${OPENAI_API_KEY}"],
    )
    base_url: _Url | None = Field(
        default=None, description="Address of the provider's API; defaults to the official one."
    )
    script: Annotated[RelativePath, Field(examples=["script.yaml"])] | None = Field(
        default=None,
        description="Of scripted: a YAML file with turns, relative to the project directory, or the dotted path of "
        "a function that takes a Prompt and returns a Completion.",
    )
    concurrency: int = Field(default=_BACKEND.concurrency, ge=1, le=4096, description="Concurrent requests.")
    tokens_per_minute: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000_000,
        description="Input and output tokens per minute; unlimited by default.",
    )
    timeout: Deadline = Field(
        default=_BACKEND.timeout, description='Time for one request: seconds, or text such as "30s".'
    )
    stream: bool = Field(
        default=False, description="Whether answers are streamed, which keeps slow connections open."
    )


class ModelEntry(Strict):
    """Model under the name that handlers and listeners use."""

    name: Name = Field(description="The name that handlers and listeners refer to.")
    backends: Annotated[list[Name], Field(min_length=1, max_length=100)] = Field(
        description="The backends that answer, in order."
    )
    strategy: Strategy = Field(
        default=_MODEL.strategy,
        description="failover: the first one that answers. round-robin: in turn. least-loaded: the one with the most "
        "free capacity. The others are tried after a temporary failure.",
    )
    retries: int = Field(
        default=_MODEL.retries,
        ge=0,
        le=100,
        description="Further attempts at each backend after a temporary failure.",
    )
    max_tokens: int = Field(
        default=_MODEL.max_tokens, ge=1, le=1_000_000, description="Tokens that one answer may have."
    )
    settings: Annotated[dict[str, Any], Field(max_length=100), AfterValidator(_check_settings)] = Field(
        default_factory=dict,
        description="temperature, top_p, seed, stop, effort (minimal, low, medium, high) and whatever else the "
        "provider takes, which is sent as it is.",
    )


class AgentEntry(Strict):
    """Limits of an agent that is a model."""

    turns: int = Field(
        default=_TURNS,
        ge=1,
        le=1000,
        description="Calls of the model for one request; then the caller gets the error budget.",
    )
    repairs: int = Field(
        default=_REPAIRS,
        ge=0,
        le=100,
        description="How often the model may correct an unknown tool, wrong arguments, a cut answer, or prose instead "
        "of an answer; then the caller gets the error internal.",
    )
    history: int = Field(
        default=_HISTORY,
        ge=1000,
        le=1 << 23,
        description="Bytes of the exchange with the model that a thread stores; older turns are dropped.",
    )
    summary: Name | None = Field(
        default=None, description="The model that summarises turns dropped from the history."
    )


def convert_agent_entry(value: Any) -> Any:
    """Convert ``true`` to the defaults and ``false`` to None."""
    if isinstance(value, bool):
        return {} if value else None
    if not isinstance(value, dict):
        raise PydanticCustomError("bool_type", "true or false")
    return value


MaybeAgent: TypeAlias = Annotated[
    AgentEntry | None, BeforeValidator(convert_agent_entry, json_schema_input_type=bool | AgentEntry)
]


class PriceEntry(Strict):
    """US dollars for a million tokens."""

    input: _Dollars = Field(description="For a million input tokens.")
    output: _Dollars = Field(description="For a million output tokens.")


class BudgetEntry(Strict):
    """Limit on spending."""

    tokens: int | None = Field(
        default=None, ge=1, le=10**12, description="Input and output tokens; unlimited by default."
    )
    money: Annotated[float, Field(gt=0, le=1e6)] | None = Field(
        default=None, description="US dollars; unlimited by default."
    )

    @model_validator(mode="after")
    def _bounds(self) -> BudgetEntry:
        if self.tokens is None and self.money is None:
            raise ValueError("needs tokens or money")
        return self


class BudgetsEntry(Strict):
    """Limits on spending for language models. The maximal cost of a call is reserved before the request."""

    request: BudgetEntry | None = Field(
        default=None, title="Request", description="For one message from outside."
    )
    conversation: BudgetEntry | None = Field(
        default=None, title="Conversation", description="For one conversation."
    )
    agents: dict[str, BudgetEntry] = Field(
        default_factory=dict,
        max_length=1000,
        description="For one listener in one conversation, by its name.",
    )


def _read_recorded(value: Any) -> Any:
    """Read the text of a member; ``off`` of YAML 1.1 is false."""
    text = "off" if value is False else value
    return RecordingExtent(text) if isinstance(text, str) and text in set(RecordingExtent) else text


class PromptsEntry(Strict):
    """Recording of prompts and answers with the conversation, for the trace and the live view."""

    record: Annotated[RecordingExtent, BeforeValidator(_read_recorded)] = Field(
        default=_PROMPTS.recorded,
        description="off: nothing. metadata: model, backends, tokens, cost, finish and the names of tools. full: also "
        "messages, tools, arguments and answers, without secrets.",
    )
    sample: float = Field(
        default=_PROMPTS.sample, ge=0.0, le=1.0, description="The share of recorded requests, from 0 to 1."
    )
    retention: Retention = Field(
        default=_PROMPTS.retention,
        description='How long they are stored, such as "7d"; at most as long as their conversation.',
    )
    roles: Annotated[list[Literal["operator", "viewer"]], Field(max_length=2)] = Field(
        default=["operator"],
        description="The roles that may read them in the live view. A viewer gets lengths and SHA-256 in place of "
        "texts; a role that is not listed sees only that a model was asked.",
    )


class LlmEntry(Strict):
    """Language models that handlers may ask."""

    backends: Annotated[list[BackendEntry], Field(min_length=1, max_length=100)] = Field(
        description="The backends that answer."
    )
    models: Annotated[list[ModelEntry], Field(min_length=1, max_length=1000)] = Field(
        description="The models, by the names that handlers and listeners use."
    )
    prices: dict[str, PriceEntry] = Field(
        default_factory=dict,
        max_length=1000,
        description="By the provider's name for a model; other prices come from a table of the library, which is not "
        "complete.",
    )
    budget: BudgetsEntry = Field(
        default_factory=BudgetsEntry, title="Budget", description="Limits on spending."
    )
    prompts: PromptsEntry = Field(
        default_factory=PromptsEntry,
        title="Prompts",
        description="Recording of prompts and answers with their conversation.",
    )


class ScriptCall(Strict):
    """Tool call by a scripted model."""

    tool: str = Field(min_length=1)
    arguments: dict[str, Any] = Field(default_factory=dict)


class Turn(Strict):
    """Answer in a script."""

    when: str = ""
    text: str = ""
    calls: Annotated[list[ScriptCall], Field(max_length=1000)] = Field(default_factory=list)
    fault: Literal[tuple(fault.value for fault in CompletionFault)] | None = None  # type: ignore[valid-type]
    finish: Literal[tuple(finish.value for finish in Finish)] | None = None  # type: ignore[valid-type]

    @model_validator(mode="after")
    def _says(self) -> Turn:
        if not (self.text or self.calls or self.fault or self.finish):
            raise ValueError("needs text, calls, fault or finish")
        return self


class Script(Strict):
    """Turns of a script: one answer each, or alternatives that ``when`` selects."""

    turns: Annotated[list[Turn | list[Turn]], Field(min_length=1, max_length=10_000)]
