"""Spans and their parts, and the names of their attributes and operations.

The names follow OpenTelemetry's semantic conventions, whose constants in Python are private and in development: a test
compares them with the installed package.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentserver.trace.traceparent import Traceparent


class Attribute(StrEnum):
    """Names of attributes. The first ones are those of the conventions, the last ones ours."""

    OPERATION = "gen_ai.operation.name"
    AGENT = "gen_ai.agent.name"
    TOOL = "gen_ai.tool.name"
    CONVERSATION = "gen_ai.conversation.id"
    PROVIDER = "gen_ai.provider.name"
    REQUEST_MODEL = "gen_ai.request.model"
    RESPONSE_MODEL = "gen_ai.response.model"
    MAX_TOKENS = "gen_ai.request.max_tokens"
    FINISH_REASONS = "gen_ai.response.finish_reasons"
    TOKEN_TYPE = "gen_ai.token.type"  # noqa: S105 - a name
    STATUS = "http.response.status_code"
    INPUT_TOKENS = "gen_ai.usage.input_tokens"
    OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
    INPUT = "gen_ai.input.messages"
    OUTPUT = "gen_ai.output.messages"
    INSTRUCTIONS = "gen_ai.system_instructions"
    TOOLS = "gen_ai.tool.definitions"
    ARGUMENTS = "gen_ai.tool.call.arguments"
    RESULT = "gen_ai.tool.call.result"
    ERROR = "error.type"
    FILE = "code.file.path"
    FUNCTION = "code.function.name"
    LINE = "code.line.number"
    SERVICE = "service.name"
    VERSION = "service.version"
    SDK = "telemetry.sdk.name"
    LANGUAGE = "telemetry.sdk.language"

    BACKEND = "agentserver.backend"
    SENDER = "agentserver.sender"
    PAYLOAD = "agentserver.payload"
    WAITED = "agentserver.waited"
    ATTEMPTS = "agentserver.attempts"
    TOKENS = "agentserver.tokens"
    COST = "agentserver.cost_usd"
    RESULTED = "agentserver.result"
    CODE = "agentserver.code"
    RULE = "agentserver.rule"
    DETAIL = "agentserver.detail"


class Operation(StrEnum):
    """Values of ``Attribute.OPERATION``."""

    WORKFLOW = "invoke_workflow"
    AGENT = "invoke_agent"
    TOOL = "execute_tool"
    CHAT = "chat"


OURS = "agentserver."
"""Prefix of our own names."""


Value: TypeAlias = str | int | float | tuple[str, ...]
Pair: TypeAlias = tuple[str, Value]


class SpanEvent(NamedTuple):
    """Event of a span; ``at`` in seconds since the epoch."""

    name: str
    at: float
    attributes: tuple[Pair, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class SpanKind:
    """Common parts of many spans. Compared by identity: an encoder keeps the bytes of each."""

    name: str
    attributes: tuple[Pair, ...]


class Span(NamedTuple):
    """Finished span.

    Args:
        trace: 16 bytes.
        id: 8 bytes.
        parent: 8 bytes; empty for a request's.
        about: its name, and common attributes.
        began: in seconds since the epoch.
        ended: the same.
        error: the code of its failure; empty if it succeeded.
        link: the span that sent its request.
        client: whether it is a call to the outside.
    """

    trace: bytes
    id: bytes
    parent: bytes
    about: SpanKind
    began: float
    ended: float
    attributes: Sequence[Pair] = ()
    events: Sequence[SpanEvent] = ()
    error: str = ""
    link: Traceparent | None = None
    client: bool = False
