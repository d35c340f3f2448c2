"""The names of attributes, operations and events in spans.

Owns every such string, those of OpenTelemetry's semantic conventions among them: their constants in Python are private
and in development, so a test compares these with the installed package. Refuses to know spans.
"""

from __future__ import annotations

from enum import StrEnum


class Attribute(StrEnum):
    """Names of attributes. The first ones are those of the conventions, the last ones ours."""

    OPERATION = "gen_ai.operation.name"
    AGENT = "gen_ai.agent.name"
    TOOL = "gen_ai.tool.name"
    WORKFLOW = "gen_ai.workflow.name"
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
    ARGUMENTS = "gen_ai.tool.call.arguments"
    RESULT = "gen_ai.tool.call.result"
    ERROR = "error.type"
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
"""The beginning of the names that are ours."""
