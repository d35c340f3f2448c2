"""The keys below ``llm:`` in ``organism.yaml``: types, bounds, help texts.

Owns the pydantic models. Refuses to know files, and whether a name that is referred to is there.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from agentserver.completion import Backend, CompletionFault, Finish, ModelChoice, Provider, Strategy
from agentserver.config.keys.fields import Deadline, Line, Name, RelativePath, Strict

_BACKEND = Backend("", "scripted", "")
_MODEL = ModelChoice("", ())
_TURNS, _REPAIRS, _HISTORY = 12, 2, 50_000

_Url: TypeAlias = Annotated[str, Field(pattern=r"^https?://[^\s@?#]+$", max_length=1000)]
_Dollars = Annotated[float, Field(ge=0, le=1e6)]


class BackendEntry(Strict):
    """A place that answers."""

    name: Name = Field(description="By which models refer to it.")
    provider: Provider = Field(
        description="The protocol: openai, which most servers and gateways speak (with a base_url), anthropic, or "
        "scripted, which answers from a file and asks nobody."
    )
    model: Line = Field(default="script", description="The provider's name for the model.")
    key: str | None = Field(
        default=None,
        min_length=1,
        repr=False,
        description="The secret that the provider asks for: ${NAME} of the environment, or ${file:path}; never the "
        "secret itself.",
        examples=["${OPENAI_API_KEY}"],
    )
    base_url: _Url | None = Field(
        default=None, description="Address of the provider's API; its own if left out."
    )
    script: Annotated[RelativePath, Field(examples=["script.yaml"])] | None = Field(
        default=None,
        description="Of scripted: a YAML file with the turns, relative to the project directory, or the dotted path of "
        "a function that takes a Prompt and gives a Completion.",
    )
    concurrency: int = Field(default=_BACKEND.concurrency, ge=1, le=4096, description="Requests at once.")
    tokens_per_minute: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000_000,
        description="Tokens in any minute, read and written; no bound if left out.",
    )
    timeout: Deadline = Field(
        default=_BACKEND.timeout, description='Time for one request: seconds, or text such as "30s".'
    )
    stream: bool = Field(
        default=False, description="Whether answers come in pieces, which keeps slow connections open."
    )


class ModelEntry(Strict):
    """A model as handlers and listeners name it."""

    name: Name = Field(description="By which handlers and listeners refer to it.")
    backends: Annotated[list[Name], Field(min_length=1, max_length=100)] = Field(
        description="The backends that answer, in order."
    )
    strategy: Strategy = Field(
        default=_MODEL.strategy,
        description="failover: the first one that answers. round-robin: they take turns. least-loaded: the one with "
        "the most room. The others are asked when one fails for now.",
    )
    retries: int = Field(
        default=_MODEL.retries,
        ge=0,
        le=100,
        description="Further attempts at each backend that failed for now.",
    )
    max_tokens: int = Field(
        default=_MODEL.max_tokens, ge=1, le=1_000_000, description="Tokens that one answer may have."
    )


class AgentEntry(Strict):
    """The bounds of an agent that is made of a model."""

    turns: int = Field(
        default=_TURNS,
        ge=1,
        le=1000,
        description="Calls of the model for one request; then the caller is told budget.",
    )
    repairs: int = Field(
        default=_REPAIRS,
        ge=0,
        le=100,
        description="How often the model may mend an unknown tool, wrong arguments, a cut answer or prose in place of "
        "an answer; then the caller is told internal.",
    )
    history: int = Field(
        default=_HISTORY,
        ge=1000,
        le=1 << 23,
        description="Bytes of the exchange with the model that a thread keeps; older turns are forgotten.",
    )
    summary: Name | None = Field(
        default=None, description="The model that sums up what does not fit into the history."
    )


def agent_entry(value: Any) -> Any:
    """``true`` as all of the defaults, ``false`` as no agent."""
    if isinstance(value, bool):
        return {} if value else None
    if not isinstance(value, dict):
        raise PydanticCustomError("bool_type", "true or false")
    return value


MaybeAgent: TypeAlias = Annotated[
    AgentEntry | None, BeforeValidator(agent_entry, json_schema_input_type=bool | AgentEntry)
]


class PriceEntry(Strict):
    """US dollars for a million tokens."""

    input: _Dollars = Field(description="For a million tokens that the model reads.")
    output: _Dollars = Field(description="For a million tokens that it writes.")


class BudgetEntry(Strict):
    """The most that may be spent."""

    tokens: int | None = Field(
        default=None, ge=1, le=10**12, description="Tokens, read and written; no bound if left out."
    )
    money: Annotated[float, Field(gt=0, le=1e6)] | None = Field(
        default=None, description="US dollars; no bound if left out."
    )

    @model_validator(mode="after")
    def _bounds(self) -> BudgetEntry:
        if self.tokens is None and self.money is None:
            raise ValueError("needs tokens or money")
        return self


class BudgetsEntry(Strict):
    """The most that may be spent on language models. What a call may cost at most is reserved before it goes out."""

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


class LlmEntry(Strict):
    """The language models that handlers may ask."""

    backends: Annotated[list[BackendEntry], Field(min_length=1, max_length=100)] = Field(
        description="The places that answer."
    )
    models: Annotated[list[ModelEntry], Field(min_length=1, max_length=1000)] = Field(
        description="The models as handlers and listeners name them."
    )
    prices: dict[str, PriceEntry] = Field(
        default_factory=dict,
        max_length=1000,
        description="By the provider's name for a model; others are priced by a table of the library, which does not "
        "know all.",
    )
    budget: BudgetsEntry = Field(
        default_factory=BudgetsEntry, title="Budget", description="What may be spent."
    )


class ScriptCall(Strict):
    """A call of a tool that a scripted model makes."""

    tool: str = Field(min_length=1)
    arguments: dict[str, Any] = Field(default_factory=dict)


class Turn(Strict):
    """One answer of a script."""

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
    """The turns of a script: each one answer, or those among which ``when`` chooses."""

    turns: Annotated[list[Turn | list[Turn]], Field(min_length=1, max_length=10_000)]
