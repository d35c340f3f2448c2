"""Completions recorded with their conversation: content, retention, and readers' view."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import count
from types import SimpleNamespace

import pytest

from agentserver.completion import (
    Attempt,
    Completion,
    CompletionError,
    CompletionFault,
    PromptRecording,
    RecordingExtent,
    Request,
    Tool,
    ToolCall,
    Usage,
)
from agentserver.core.messages import Moment
from agentserver.engines.conformance.sample import SampleConversation, keep
from agentserver.engines.memory import MemoryEngine
from agentserver.engines.postgres import PostgresOptions
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import JournalOptions
from agentserver.pump.completions import CompletionLog, is_sampled
from agentserver.trace import text as trace_text
from agentserver.trace.completions import redact_completions
from agentserver.trace.redact import EVERY, Redaction
from tests.engines.postgres.alone import AloneEngine

pytestmark = pytest.mark.anyio

PROMPT = (
    {"role": "system", "content": "You pay. The key is hunter2."},
    {"role": "user", "content": "Pay DE89370400440532013000 now"},
)
TOOLS = (Tool("pay", "Pays a bill.", {"type": "object"}),)
ANSWER = Completion(
    "I pay.",
    (ToolCall("c1", "pay", '{"iban": "DE89370400440532013000"}'),),
    Usage(100, 20, 1, 0.004),
    "small-1",
    attempts=(Attempt("spare", CompletionFault.UNAVAILABLE, 503), Attempt("main")),
)


class Clock:
    def __init__(self):
        self._ticks = count(1)

    def moment(self):
        return Moment(1000.0, b"0" * 16)

    def steady(self):
        return next(self._ticks) / 4


class Model:
    def __init__(self, said=ANSWER):
        self.said, self.asked = said, 0

    async def complete(self, model, request):
        self.asked += 1
        if isinstance(self.said, BaseException):
            raise self.said
        return self.said


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def make_engine(request, tmp_path):
    if request.param == "memory":
        return lambda: MemoryEngine(recorded=True)
    if request.param == "postgres":
        options = PostgresOptions(request.getfixturevalue("database"))
        return lambda: AloneEngine(options, retention=50.0)
    return lambda: SqliteEngine(JournalOptions(tmp_path / "journal.sqlite"), retention=50.0)


async def ask_model(engine, said=ANSWER, extent=RecordingExtent.FULL, **more):
    """Ask a model for the handler of a delivery; return the conversation's outcome."""
    outcome = SampleConversation().receive(SampleConversation().start(), "1")
    await keep(engine, outcome)
    log = CompletionLog(
        PromptRecording(extent, **more), engine, Clock(), lambda text: text.replace("hunter2", "[secret]")
    )
    completer = log.wrap(Model(said), outcome.ready[0])
    await completer.complete("writer", Request(PROMPT, "clerk", 99.0, TOOLS))
    return outcome


async def list_stored(engine, outcome):
    return await engine.read(lambda reader: list(reader.list_completions(outcome.conversation.id)))


async def test_a_completion_is_recorded_with_its_conversation_without_secrets(make_engine):
    async with make_engine() as engine:
        outcome = await ask_model(engine)
        (one,) = await list_stored(engine, outcome)
    delivery = outcome.ready[0]
    assert (one.request, one.delivery, one.listener) == (delivery.request, delivery.id, delivery.to)
    assert (one.model, one.answered_by, one.at, one.took) == ("writer", "small-1", 1000.0, 0.25)
    assert (one.attempts, one.usage, one.tools, one.messages) == (ANSWER.attempts, ANSWER.usage, ("pay",), 2)
    assert [each.content for each in one.content.messages] == [
        "You pay. The key is [secret].", "Pay DE89370400440532013000 now",
    ]  # fmt: skip
    assert (one.content.text, one.content.calls) == ("I pay.", ANSWER.calls)
    assert json.loads(one.content.tools[0].schema) == {"type": "object"}


async def test_metadata_hold_no_text(make_engine):
    async with make_engine() as engine:
        (one,) = await list_stored(engine, await ask_model(engine, extent=RecordingExtent.METADATA))
    assert one.content is None
    assert one.characters == sum(len(each["content"]) for each in PROMPT)
    assert len(one.digest) == 64
    assert "DE89" not in repr(one)


async def test_a_failure_is_recorded_and_raised(make_engine):
    failure = CompletionError(CompletionFault.RATE, "writer", attempts=ANSWER.attempts[:1])
    async with make_engine() as engine:
        outcome = SampleConversation().receive(SampleConversation().start(), "1")
        await keep(engine, outcome)
        log = CompletionLog(PromptRecording(RecordingExtent.FULL), engine, Clock(), str)
        with pytest.raises(CompletionError):
            await log.wrap(Model(failure), outcome.ready[0]).complete(
                "writer", Request(PROMPT, "clerk", 99.0)
            )
        (one,) = await list_stored(engine, outcome)
    assert (one.fault, one.finish, one.attempts) == ("rate", None, ANSWER.attempts[:1])


async def test_a_completion_expires_before_its_conversation(make_engine):
    async with make_engine() as engine:
        outcome = await ask_model(engine, retention=10.0)
        await engine.expire(1009.0)
        assert len(await list_stored(engine, outcome)) == 1
        await engine.expire(1011.0)
        assert await list_stored(engine, outcome) == []
        assert await engine.load(outcome.conversation.id) is not None


async def test_a_deleted_conversation_takes_its_completions_along(tmp_path):
    async with SqliteEngine(JournalOptions(tmp_path / "journal.sqlite"), retention=50.0) as engine:
        outcome = await ask_model(engine, retention=1e9)
        await keep(engine, SampleConversation().close(outcome.conversation))
        assert await engine.expire(1e8) == 1
        assert engine._connection.execute("select count(*) from completion").fetchone() == (0,)


async def test_a_request_that_is_not_sampled_costs_nothing():
    log, model = CompletionLog(PromptRecording(RecordingExtent.FULL, sample=0.0), None, None, str), Model()
    assert log.wrap(model, SimpleNamespace(request="r")) is model
    assert [is_sampled(str(one), 0.5) for one in range(1000)].count(True) in range(400, 600)


async def test_a_viewer_sees_lengths_and_hashes_and_a_field_is_redacted(make_engine):
    async with make_engine() as engine:
        outcome = await ask_model(engine)
        found = await list_stored(engine, outcome)
        records = (await engine.read(lambda r: r.recorded_conversation(outcome.conversation.id))).records()
    for fields in ((EVERY,), ("iban",)):
        (one,) = redact_completions(found, records, Redaction(fields))
        assert "DE8937" not in one.content.calls[0].arguments
        assert one.content.calls[0].name == "pay"
    (one,) = redact_completions(found, records, Redaction((EVERY,)))
    assert "DE8937" not in repr(one)
    assert one.tools == ("pay",)


async def test_a_trace_shows_completions_as_text_json_and_page(make_engine):
    async with make_engine() as engine:
        outcome = await ask_model(engine)
        found = await list_stored(engine, outcome)
        records = (await engine.read(lambda r: r.recorded_conversation(outcome.conversation.id))).records()
    found = [replace(one, at=records[-1].at) for one in found]
    shown = trace_text.format_tree_text(records, found, payloads=True)
    assert "writer at main (small-1)  after spare answered 503 (unavailable)  stop" in shown
    assert "100 tokens in, 20 out  $0.004000" in shown
    assert "user: Pay DE89370400440532013000 now" in shown
    assert "Pay DE8937" not in trace_text.format_tree_text(records, found)
    last = json.loads(list(trace_text.iter_json_lines(records, found))[-1])
    assert (last["event"], last["model"], last["usage"]["input_tokens"]) == ("completed", "writer", 100)
    assert "Pay DE89370400440532013000 now" in trace_text.render_page("t", records, found)
