"""The researcher: an agent that lets a model plan and call tools until it has an answer.

Owns the loop: note what came, wait until a turn's answers are all there, ask the model for the next turn.
Refuses to judge what the model asks for: whom it may reach is for the server to say, and the server does.
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
from listeners.model import Call, Model, Said, Turn
from listeners.payloads import (
    Calculate,
    Fetch,
    Mail,
    Mailed,
    Page,
    Report,
    Research,
    Result,
    Summarise,
    Summary,
)
from listeners.resources import Site

Heard: TypeAlias = Research | Result | Page | Summary | Mailed | SystemError
"""What the model is told of: the question, the answers of tools, refusals."""

Response: TypeAlias = HandlerResponse | list[HandlerResponse]

ROLE = """\
You are the researcher of a small desk. Work out the answer with the listeners above, one step at a time.
Start at {start} when you need to read something."""

PAYLOADS = {kind.__name__: kind for kind in (Calculate, Fetch, Summarise, Mail)}
"""What the model may write. Names allow nothing: it can write a Mail, and will not get rid of it."""

REPLIES = {"Calculate": Result, "Fetch": Page, "Summarise": Summary, "Mail": Mailed}
"""The payload that answers each of them."""


@dataclass(frozen=True, slots=True)
class ResearcherSettings:
    """How long the researcher goes on.

    Args:
        turns: of the model for one question.
    """

    turns: Annotated[int, Ge(1)] = 12


@xmlify
@dataclass(frozen=True, slots=True)
class Notebook:
    """What the researcher remembers of one question.

    Args:
        said: the transcript.
        turns: taken by the model so far.
        waiting: todos that are registered and not complete; none when the last turn was refused as a whole.
    """

    said: Annotated[list[Said], MaxLen(500)] = field(default_factory=list)
    turns: int = 0
    waiting: int = 0

    def noting(self, who: str, text: str) -> Notebook:
        """With one more entry."""
        return replace(self, said=[*self.said, Said(who, text)])


async def research(payload: Heard | TodoRegistered, metadata: HandlerMetadata) -> Response | None:
    """Take a question or an answer to a call; act when nothing is outstanding."""
    storage = invocation().storage
    notebook = storage.get(Notebook) or Notebook()
    if isinstance(payload, TodoRegistered):
        # The calls were admitted together with the todo, and no answer to them comes before it.
        storage.set(replace(notebook, waiting=notebook.waiting + 1))
        return None
    who = "user" if isinstance(payload, Research) else metadata.from_id
    notebook = notebook.noting(who, as_text(payload))
    if metadata.todo_nudge:
        notebook = replace(notebook, waiting=notebook.waiting - close_todos(metadata))
    if notebook.waiting:
        storage.set(notebook)
        return None
    return await act(notebook, metadata)


async def act(notebook: Notebook, metadata: HandlerMetadata) -> Response:
    """Ask the model for its next turn and do what it says."""
    running = invocation()
    settings: ResearcherSettings = running.settings
    if notebook.turns >= settings.turns:
        return HandlerResponse.respond(Report(f"I found no answer within {settings.turns} turns."))
    prompt = "\n\n".join([metadata.usage_instructions, ROLE.format(start=running.resource(Site).url)])
    turn = await running.resource(Model).complete(prompt, notebook.said)
    if not turn.calls:
        return HandlerResponse.respond(Report(turn.text, list(turn.sources), turn.contact or None))
    for call in turn.calls:
        notebook = notebook.noting("assistant", as_said(call))
    running.storage.set(replace(notebook, turns=notebook.turns + 1))
    return requests(turn)


def requests(turn: Turn) -> Response:
    """The messages of a turn, after a todo for each kind that holds the answers back until all are there."""
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
    """Acknowledge the todos that are complete; gives their number."""
    todos = get_todo_registry()
    raised = todos.get_raised_for(metadata.thread_id, metadata.own_name)
    for watcher in raised:
        todos.close(watcher.watcher_id)
    return len(raised)


def as_said(call: Call) -> str:
    """How the transcript shows a call: its payload and its first field, which is what the call is about."""
    return f"{call.payload}: {next(iter(call.fields.values()), '')}"


def as_text(payload: Heard) -> str:
    """What the model reads of a payload."""
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
        case Result() | Mailed():
            lines = [str(payload)]
    return "\n".join(lines)
