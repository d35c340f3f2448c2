"""The request of a front end with a run: a message to a listener, and answers to interrupts.

Owns how the input of a run is read: its last words of a user are the message, under a key made of their id, so that a
run that is asked for again is the same request. Pure. Refuses to believe what else the input tells: the history is the
server's own.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from ag_ui.core import ResumeEntry, RunAgentInput, UserMessage

from agentserver.core.state.approvals import Answer
from agentserver.foreign_json.models import ForeignModel
from agentserver.foreign_json.reading import JsonLimits, RefusedJson
from agentserver.gateways.http.problems import ProblemAnswer
from agentserver.payload.json.schema import json_schema
from agentserver.payload.json.values import JsonRefusal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agentserver.payload.codec import Codec

PAYLOAD: Final = "payload"
"""The member of forwardedProps that is the payload itself, for listeners that take more than a text."""

_NAME: Final = "payloadName"
_LONGEST: Final = 300
_FORM: Final[ForeignModel[RunAgentInput]] = ForeignModel(RunAgentInput)


@dataclass(frozen=True, slots=True)
class InterruptAnswer:
    """An answer to an interrupt.

    Args:
        interrupt: its id, which is the approval's.
        answer: what it says; None for one that decides nothing.
        digest: of the message that was shown; empty where it was abandoned.
    """

    interrupt: str
    answer: Answer | None
    digest: str = ""


@dataclass(frozen=True, slots=True)
class RunAsked:
    """A run that is asked for.

    Args:
        thread: the front end's id of the conversation.
        run: its id of this run.
        key: the message's own id, under which it is one request.
        text: the words of the user; None where there are none.
        value: the payload as a JSON value, where the front end gives it whole; else None.
        name: of the payload; None where the listener takes one alone.
        answers: to interrupts of an earlier run.
        told: ids of the messages that the front end has already.
    """

    thread: str
    run: str
    key: str
    text: str | None
    value: Mapping[str, Any] | None
    name: str | None
    answers: tuple[InterruptAnswer, ...]
    told: frozenset[str]


def read(data: bytes, *, decides: bool) -> RunAsked:
    """The run that a body asks for.

    Args:
        data: the body.
        decides: whether the caller may answer approvals.

    Raises ProblemAnswer: 422 for what is no run, 403 for an answer of one who may not give it.
    """
    found = _FORM.read(data, JsonLimits(bytes=len(data)))
    if isinstance(found, RefusedJson):
        raise ProblemAnswer(422, "This is no input of a run.", faults=[asdict(found)])
    if not (0 < len(found.thread_id) <= _LONGEST and 0 < len(found.run_id) <= _LONGEST):
        raise ProblemAnswer(422, f"threadId and runId have 1 to {_LONGEST} characters.")
    given = found.forwarded_props if isinstance(found.forwarded_props, dict) else {}
    value, name = given.get(PAYLOAD), given.get(_NAME)
    if not isinstance(value, dict | None) or not isinstance(name, str | None):
        raise ProblemAnswer(422, f"forwardedProps.{PAYLOAD} is an object, and {_NAME} a text.")
    said = next((each for each in reversed(found.messages) if isinstance(each, UserMessage)), None)
    key = found.run_id if said is None else said.id
    text = None if said is None else _text(said)
    answers = tuple(_answer(each, decides=decides) for each in found.resume or ())
    if len({each.interrupt for each in answers}) < len(answers):
        raise ProblemAnswer(422, "An interrupt is answered twice.")
    told = frozenset(each.id for each in found.messages)
    return RunAsked(found.thread_id, found.run_id, hashed("message", key), text, value, name, answers, told)


def hashed(kind: str, text: str) -> str:
    """A key of a bounded length for an id of a front end's."""
    return f"agui-{kind}-{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:40]}"


def value_for(asked: RunAsked, codecs: Sequence[Codec]) -> Mapping[str, Any]:
    """The payload's value: the one that was given, or the words of the user in the only field that they could mean.

    Raises ProblemAnswer where there are no words, or the payload has more than a text.
    """
    if asked.value is not None:
        return asked.value
    if asked.text is None:
        raise ProblemAnswer(422, "There is no message of a user.")
    fields = [_text_field(each) for each in codecs]
    if len(fields) != 1 or fields[0] is None:
        raise ProblemAnswer(422, f"This listener takes more than a text: give forwardedProps.{PAYLOAD}.")
    return {fields[0]: asked.text}


def _text_field(codec: Codec) -> str | None:
    """The only field that has to be said, when it is a text."""
    schema = json_schema(codec)
    if isinstance(schema, JsonRefusal):
        return None
    fields = schema.get("properties", {})
    wanted = schema.get("required") or tuple(fields)
    if len(wanted) != 1:
        return None
    (name,) = wanted
    return name if fields[name].get("type") == "string" and "enum" not in fields[name] else None


def _text(message: UserMessage) -> str:
    if isinstance(message.content, str):
        return message.content
    return "\n".join(part.text for part in message.content if part.type == "text")


def _answer(entry: ResumeEntry, *, decides: bool) -> InterruptAnswer:
    if entry.status == "cancelled":  # abandoned: of one who may decide it is a no, of anybody else nothing
        return InterruptAnswer(entry.interrupt_id, Answer.DENY if decides else None)
    if not decides:
        raise ProblemAnswer(403, "This role decides about nothing.")
    said = entry.payload if isinstance(entry.payload, dict) else {}
    answer, digest = said.get("answer"), said.get("digest")
    if set(said) != {"answer", "digest"} or answer not in tuple(Answer) or not isinstance(digest, str):
        raise ProblemAnswer(422, "An answer is the digest that was shown, and once, always or deny.")
    return InterruptAnswer(entry.interrupt_id, Answer(answer), digest)
