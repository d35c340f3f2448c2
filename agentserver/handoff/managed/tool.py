"""The handoff tool as declared to an agent service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentserver.handoff.parameters import Type
from agentserver.handoff.requests import TYPE

if TYPE_CHECKING:
    from agentserver.handoff.intents import Intent, Vocabulary
    from agentserver.handoff.parameters import Parameter


def definition(vocabulary: Vocabulary) -> dict[str, Any]:
    """Return the custom tool to register with an agent, as JSON of the service.

    Name, description and schema of its input.
    """
    intents = [each.intent for each in vocabulary.intents.values()]
    schema = {
        "type": "object",
        "properties": {
            "target_agent": {"type": "string", "enum": sorted(vocabulary.targets)},
            "intent": {"type": "string", "enum": [each.name for each in intents]},
            "params": {"anyOf": [_params(each) for each in intents]},
            "event": {"type": "string", "maxLength": max((each.event_most for each in intents), default=0)},
        },
        "required": ["target_agent", "intent", "params"],
        "additionalProperties": False,
    }
    told = "\n".join(f"- {each.name}, of {', '.join(each.targets)}" for each in intents)
    words = (
        "Hand work over to another agent. Choose an intent and give its params; what else there is to say goes into "
        f"event, which the target is shown as data.\n{told}"
    )
    return {"type": "custom", "name": TYPE, "description": words, "input_schema": schema}


def _params(intent: Intent) -> dict[str, Any]:
    members = {each.name: _value(each) for each in intent.parameters}
    if intent.note:
        members[intent.note] = {"type": "string", "maxLength": intent.note_most}
    needed = [each.name for each in intent.parameters if each.required]
    return {
        "type": "object",
        "description": f"Of {intent.name}.",
        "properties": members,
        "required": needed,
        "additionalProperties": False,
    }


def _value(parameter: Parameter) -> dict[str, Any]:
    if parameter.type in {Type.INTEGER, Type.BOOLEAN}:
        return {"type": str(parameter.type)}
    lexical = parameter.lexical
    if lexical.choices:
        return {"type": "string", "enum": list(lexical.choices)}
    found: dict[str, Any] = {"type": "string", "minLength": lexical.least}
    if lexical.most is not None:
        found["maxLength"] = lexical.most
    patterns = [f"^(?:{each})$" for each in lexical.patterns]
    return found | (
        {"pattern": patterns[0]} if len(patterns) == 1 else {"allOf": [{"pattern": p} for p in patterns]}
    )
