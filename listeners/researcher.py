"""The researcher: an agent that lets a model plan and call tools until it has an answer.

The loop: add each message to the transcript, wait for all answers of a turn, then ask the model for the next turn. The
researcher does not check what the model asks for: the server enforces which listeners it may reach.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Annotated, TypeAlias

from annotated_types import Ge, MaxLen

from agentserver import (
    HandlerMetadata,
    HandlerResponse,
    SystemError,
    TodoRegistered,
    TodoUntil,
    get_todo_registry,
    invocation,
    xmlify,
)
from listeners.model import Call, Model, TranscriptEntry, Turn
from listeners.payloads import (
    Calculate,
    Fetch,
    Mail,
    MailReceipt,
    Page,
    Report,
    Research,
    Result,
    Summarise,
    Summary,
)
from listeners.resources import Site

ModelInput: TypeAlias = Research | Result | Page | Summary | MailReceipt | SystemError
"""Messages that the model sees: the question, the answers of tools, refusals."""

Response: TypeAlias = HandlerResponse | list[HandlerResponse]

ROLE = """\
You are the researcher of a small desk. Work out the answer with the listeners above, one step at a time.
Start at {start} when you need to read something."""

PAYLOADS = {kind.__name__: kind for kind in (Calculate, Fetch, Summarise, Mail)}
"""Payloads that the model can write. A name here is no permission: the server refuses to deliver its Mail."""

REPLIES = {"Calculate": Result, "Fetch": Page, "Summarise": Summary, "Mail": MailReceipt}
"""The payload that answers each of those."""


@dataclass(frozen=True, slots=True)
class ResearcherSettings:
    """Limits of the researcher.

    Args:
        turns: maximum of the model for one question.
    """

    turns: Annotated[int, Ge(1)] = 12


@xmlify
@dataclass(frozen=True, slots=True)
class Notebook:
    """State of the researcher for one question.

    Args:
        entries: the transcript.
        turns: of the model so far.
        waiting: number of incomplete todos; 0 after a turn that was refused as a whole.
    """

    entries: Annotated[list[TranscriptEntry], MaxLen(500)] = field(default_factory=list)
    turns: int = 0
    waiting: int = 0

    def with_entry(self, who: str, text: str) -> Notebook:
        """Return a notebook with one more entry."""
        return replace(self, entries=[*self.entries, TranscriptEntry(who, text)])


async def research(payload: ModelInput | TodoRegistered, metadata: HandlerMetadata) -> Response | None:
    """Take a question or an answer to a call; act once no answer is outstanding."""
    storage = invocation().storage
    notebook = storage.get(Notebook) or Notebook()
    if isinstance(payload, TodoRegistered):
        # The todo was admitted together with the calls, so it arrives before their answers.
        storage.set(replace(notebook, waiting=notebook.waiting + 1))
        return None
    who = "user" if isinstance(payload, Research) else metadata.from_id
    notebook = notebook.with_entry(who, format_payload(payload))
    if metadata.todo_nudge:
        notebook = replace(notebook, waiting=notebook.waiting - close_todos(metadata))
    if notebook.waiting:
        storage.set(notebook)
        return None
    return await act(notebook, metadata)


async def act(notebook: Notebook, metadata: HandlerMetadata) -> Response:
    """Ask the model for its next turn and carry it out."""
    running = invocation()
    settings: ResearcherSettings = running.settings
    if notebook.turns >= settings.turns:
        return HandlerResponse.respond(Report(f"I found no answer within {settings.turns} turns."))
    prompt = "\n\n".join([metadata.usage_instructions, ROLE.format(start=running.resource(Site).url)])
    turn = await running.resource(Model).complete(prompt, notebook.entries)
    if not turn.calls:
        return HandlerResponse.respond(Report(turn.text, list(turn.sources), turn.contact or None))
    for call in turn.calls:
        notebook = notebook.with_entry("assistant", describe_call(call))
    running.storage.set(replace(notebook, turns=notebook.turns + 1))
    return build_requests(turn)


def build_requests(turn: Turn) -> Response:
    """Build the messages of a turn, after a todo for each kind of answer that holds them back until all have come."""
    try:
        messages = [HandlerResponse(PAYLOADS[call.payload](**call.fields), call.to) for call in turn.calls]
    except (KeyError, TypeError):
        return HandlerResponse.respond(Report("The model asked for something that does not exist."))
    kinds = Counter((REPLIES[call.payload].__name__, call.to) for call in turn.calls)
    todos = [
        HandlerResponse(TodoUntil(reply, to, f"{reply} of {to}", count=count, hold=True), "system.todo")
        for (reply, to), count in kinds.items()
    ]
    return [*todos, *messages]


def close_todos(metadata: HandlerMetadata) -> int:
    """Close the complete todos. Returns their number."""
    todos = get_todo_registry()
    raised = todos.get_raised_for(metadata.thread_id, metadata.own_name)
    for watcher in raised:
        todos.close(watcher.watcher_id)
    return len(raised)


def describe_call(call: Call) -> str:
    """Describe a call in the transcript by its payload and its first field."""
    return f"{call.payload}: {next(iter(call.fields.values()), '')}"


def format_payload(payload: ModelInput) -> str:
    """Format a payload as the text that the model reads."""
    match payload:
        case Research():
            lines = [payload.question]
        case Page(problem=None):
            links = (f"- {link.label} <{link.url}>" for link in payload.links)
            lines = [payload.url, payload.title, payload.text, *links]
        case Page():
            lines = [f"no page: {payload.url} is {payload.problem}"]
        case Summary():
            lines = [payload.source, payload.text]
        case SystemError():
            lines = [payload.message]
        case Result() | MailReceipt():
            lines = [str(payload)]
    return "\n".join(lines)
