"""Agents as people read them in a store of traces: one span for each request, its completions and tools right below."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio
import anyio.lowlevel
import pytest

from agentserver import HandlerResponse
from agentserver.assembly import build
from agentserver.completion import Backend, Completion, CompletionError, CompletionFault, Finish, Usage
from agentserver.config import forget, load
from agentserver.config.organism import Otel
from agentserver.config.yaml.secrets import Secrets
from agentserver.contract import SystemError
from agentserver.core.messages import Delivery
from agentserver.llm import complete
from agentserver.telemetry.client import DETAILS
from agentserver.telemetry.story import OpenRequests, RunningTurns, span_id
from agentserver.testing import listener, organism_of
from tests.core.paper import Answer, Ask
from tests.llm.agent.conftest import CODE, YAML, Model, calls, done_call, spoken_for
from tests.llm.conftest import providers
from tests.machine import HANGS
from tests.telemetry.collector import attributes, collect_spans

__all__ = ["providers"]

pytestmark = pytest.mark.anyio
TWO = Model(
    calls(("calc_add", '{"a": 1, "b": 1}')),
    calls(("calc_add", '{"a": 2, "b": 1}'), ("web", '{"page": "x"}')),
    done_call("well"),
)


@pytest.fixture
def desk(tmp_path):
    loaded = []

    def make():
        (tmp_path / "desk_code.py").write_text(CODE)
        (tmp_path / "prompt.md").write_text("You work at a desk.\n")
        (tmp_path / "script.yaml").write_text("- text: nothing\n")
        path = tmp_path / "organism.yaml"
        path.write_text(YAML.format(agent="", more=""))
        loaded.append(load(path, environ={}))
        return loaded[-1]

    yield make
    for one in loaded:
        forget(one)


def trace_organism(organism, collector):
    base = collector.endpoint
    return replace(organism, otel=Otel(f"{base}/v1/traces", metrics=f"{base}/v1/metrics"))


@asynccontextmanager
async def open_ask(organism, *sinks, completer=None):
    server = build(organism, completer=completer)
    for sink in sinks:
        server.stream.attach(sink)
    with anyio.fail_after(HANGS):
        async with server:
            handle = await server.open("ada")

            async def ask(payload, to):
                codec = server.rules.codecs.of(type(payload))
                return await handle.ask(codec.encode(payload).encode(), to)

            yield ask


def tree(spans):
    """The names of the spans as a tree: each with the names below it, in the order of their beginnings."""
    below = {}
    for span in sorted(spans, key=lambda span: span.start_time_unix_nano):
        below.setdefault(span.parent_span_id, []).append(span)

    def name_spans(span):
        return span.name, [name_spans(one) for one in below.get(span.span_id, ())]

    return [name_spans(span) for span in below.get(b"", ())]


async def test_a_request_of_an_agent_is_one_span_with_its_completions_and_tools_right_below(desk):
    organism = spoken_for(await asyncio.to_thread(desk), Model(*TWO.said))
    with collect_spans() as collector:
        async with open_ask(trace_organism(organism, collector)) as ask:
            import desk_code

            await ask(desk_code.Wish("go"), "agent")
        spans = list(collector.told().values())
        assert len(spans) == len(collector.spans)
    (whole,) = tree(spans)
    (agent,) = whole[1]
    assert (whole[0], agent[0]) == ("invoke_workflow desk", "invoke_agent agent")
    below = [name for name, _ in agent[1]]
    assert sorted(below) == ["chat script"] * 3 + ["execute_tool calc.add"] * 2 + ["execute_tool web"]
    assert all(not under for _, under in agent[1])
    by_name = {span.name: span for span in spans}
    outer = by_name["invoke_agent agent"]
    assert all(
        outer.end_time_unix_nano >= span.end_time_unix_nano
        for span in spans
        if span.parent_span_id == outer.span_id
    )
    assert attributes(outer)["agentserver.payload"] == "Wish"
    assert attributes(outer)["agentserver.tokens"] == 30


async def test_each_request_of_a_conversation_has_a_span_of_its_agent(desk):
    organism = spoken_for(await asyncio.to_thread(desk), Model(*TWO.said, *TWO.said))
    with collect_spans() as collector:
        async with open_ask(trace_organism(organism, collector)) as ask:
            import desk_code

            replies = [await ask(desk_code.Wish(text), "agent") for text in ("one", "two")]
        names = [span.name for span in collector.told().values()]
        agents = [span for span in collector.told().values() if span.name == "invoke_agent agent"]
    assert names.count("invoke_agent agent") == 2
    assert len({span.trace_id for span in agents}) == 2
    assert {span.parent_span_id for span in agents} == {span_id(reply.request) for reply in replies}


async def ask_below(payload: Ask | Answer, metadata) -> HandlerResponse:
    if isinstance(payload, Ask):
        return HandlerResponse(Ask(payload.text), to="low")
    return HandlerResponse.respond(payload)


async def ask_tool(payload: Ask | Answer, metadata) -> HandlerResponse:
    if isinstance(payload, Ask):
        return HandlerResponse(Ask(payload.text), to="tool")
    return HandlerResponse.respond(payload)


async def work(payload: Ask, metadata) -> HandlerResponse:
    if payload.text == "break":
        raise ValueError("broken")
    return HandlerResponse.respond(Answer(payload.text))


TEAM = organism_of(
    listener("high", ask_below, Ask, peers=["low"], replies=[Answer], agent=True),
    listener("low", ask_tool, Ask, peers=["tool"], replies=[Answer], agent=True),
    listener("tool", work, Ask, replies=[Answer]),
)


async def test_an_agent_that_another_one_asks_lies_below_it():
    with collect_spans() as collector:
        async with open_ask(trace_organism(TEAM, collector)) as ask:
            await ask(Ask("x"), "high")
        spans = collector.spans
    low = ("invoke_agent low", [("execute_tool tool", [])])
    assert tree(spans) == [("invoke_workflow test", [("invoke_agent high", [low])])]


async def pass_on(payload: Ask | Answer | SystemError, metadata) -> HandlerResponse:
    if isinstance(payload, Ask):
        return HandlerResponse(Ask(payload.text), to="tool")
    raise ValueError("no way on")


FRAIL = organism_of(
    listener("agent", pass_on, Ask, peers=["tool"], replies=[Answer], agent=True),
    listener("tool", work, Ask, replies=[Answer]),
)


async def test_the_span_of_an_agent_that_fails_later_has_its_code():
    with collect_spans() as collector:
        async with open_ask(trace_organism(FRAIL, collector)) as ask:
            await ask(Ask("break"), "agent")
        spans = {span.name: span for span in collector.spans}
    assert attributes(spans["invoke_agent agent"])["error.type"] == "internal"
    assert attributes(spans["execute_tool tool"])["error.type"] == "internal"
    assert spans["execute_tool tool"].parent_span_id == spans["invoke_agent agent"].span_id


async def ask_model(payload: Ask, metadata) -> HandlerResponse:
    said = await complete(model="small", messages=[{"role": "user", "content": payload.text}])
    return HandlerResponse.respond(Answer(said.content))


ASKING = organism_of(listener("m", ask_model, Ask, replies=[Answer], agent=True))


class Completes:
    """A completer of a program."""

    async def complete(self, model, request):
        await anyio.lowlevel.checkpoint()
        done = Completion("half", usage=Usage(70, 30, 1, 0.0), model="m-1", finish=Finish.LENGTH)
        if request.messages[0]["content"] == "cut":
            raise CompletionError(CompletionFault.LENGTH, model, partial=done)
        return replace(done, finish=Finish.STOP)


async def test_the_metrics_of_completions_are_those_of_the_conventions():
    with collect_spans() as collector:
        async with open_ask(trace_organism(ASKING, collector), completer=Completes()) as ask:
            await ask(Ask("x"), "m")
            await ask(Ask("x"), "m")
            await ask(Ask("cut"), "m")
        tokens = collector.metrics["gen_ai.client.token.usage"]
        seconds = collector.metrics["gen_ai.client.operation.duration"]
        chats = [span for span in collector.spans if span.name == "chat small"]
        resources, scopes = collector.resources, collector.scopes
    assert (tokens.unit, seconds.unit) == ("{token}", "s")
    by_kind = {attributes(point)["gen_ai.token.type"]: point for point in tokens.histogram.data_points}
    assert {kind: (point.count, point.sum) for kind, point in by_kind.items()} == {
        "input": (3, 210),
        "output": (3, 90),
    }
    assert by_kind["input"].explicit_bounds[:4] == [1, 4, 16, 64]
    ended = {attributes(point).get("error.type"): point.count for point in seconds.histogram.data_points}
    assert ended == {None: 2, "length": 1}
    named = {"gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.response.model"}
    assert named < set(attributes(seconds.histogram.data_points[0])) | {"error.type"}
    reasons = [attributes(chat)["gen_ai.response.finish_reasons"] for chat in chats]
    assert reasons == [["stop"], ["stop"], ["length"]]
    assert all(each["service.version"] for each in resources)
    assert {(scope.name, bool(scope.version)) for scope in scopes} == {("agentserver", True)}


@pytest.mark.parametrize("redact", [(), ("a",)], ids=["whole", "redacted"])
async def test_a_completion_is_an_event_of_the_conventions_below_its_span(desk, redact):
    made = spoken_for(
        await asyncio.to_thread(desk),
        Model(calls(("calc_add", '{"a": 1, "b": 1}')), done_call("well hunter2")),
    )
    made = replace(made, secrets=made.secrets.also(Secrets.of(["hunter2hunter2"])))
    with collect_spans() as collector:
        otel = replace(
            trace_organism(made, collector).otel, events=f"{collector.endpoint}/v1/logs", redact=redact
        )
        async with open_ask(replace(made, otel=otel)) as ask:
            import desk_code

            await ask(desk_code.Wish("go hunter2hunter2"), "agent")
        chats = {span.span_id for span in collector.spans if span.name == "chat script"}
        first, last = sorted(collector.logs, key=lambda log: log.time_unix_nano)
    assert {first.event_name, last.event_name} == {DETAILS}
    assert {first.span_id, last.span_id} == chats
    assert first.severity_number == 5
    facts = attributes(first)
    assert facts["gen_ai.agent.name"] == "agent"
    assert facts["gen_ai.usage.input_tokens"] == 5
    tools = [one["name"] for one in facts["gen_ai.tool.definitions"]]
    assert tools[:2] == ["calc_add", "web"]
    (part,) = facts["gen_ai.output.messages"][0]["parts"]
    assert (part["type"], part["name"]) == ("tool_call", "calc_add")
    assert "hunter2hunter2" not in str((first, last))
    if redact:
        assert part["arguments"].startswith("[redacted: ")
        assert "You work" not in str(facts)
    else:
        assert part["arguments"] == '{"a": 1, "b": 1}'
        assert facts["gen_ai.system_instructions"][0]["content"].startswith("You work at a desk.")
        assert [one["role"] for one in attributes(last)["gen_ai.input.messages"]] == [
            "user",
            "assistant",
            "tool",
        ]


async def test_no_event_of_a_completion_is_sent_unless_it_is_asked_for(desk):
    made = spoken_for(await asyncio.to_thread(desk), Model(done_call("well")))
    with collect_spans() as collector:
        async with open_ask(trace_organism(made, collector)) as ask:
            import desk_code

            await ask(desk_code.Wish("go"), "agent")
        assert collector.logs == []


async def test_a_completion_of_a_provider_records_its_request_and_its_end(providers, desk):
    made = await asyncio.to_thread(desk)
    places = {
        name: Backend(name, "openai", model, "key", f"{providers.url}/openai")
        for name, model in (("b", "401"), ("c", "ok"))
    }
    choices = {
        name: replace(choice, backends=("b", "c"), max_tokens=77)
        for name, choice in made.models.models.items()
    }
    models = replace(made.models, backends=places, models=choices)
    providers.replies += [[("Done", {"text": "well"})]]
    with collect_spans() as collector:
        async with open_ask(trace_organism(replace(made, models=models), collector)) as ask:
            import desk_code

            await ask(desk_code.Wish("go"), "agent")
        (chat,) = [span for span in collector.spans if span.name.startswith("chat")]
    facts = attributes(chat)
    assert chat.name == "chat ok"
    assert facts["gen_ai.request.max_tokens"] == 77
    assert facts["gen_ai.response.finish_reasons"] == ["tool_calls"]
    assert facts["gen_ai.provider.name"] == "openai"
    (failed,) = chat.events
    assert attributes(failed) == {
        "agentserver.backend": "b",
        "error.type": "credentials",
        "http.response.status_code": 401,
    }


async def test_a_server_that_takes_a_request_up_comes_to_the_same_span():
    """The steps of a server that ended half-way, as the next one reads them, and then its own."""
    steps = []
    async with open_ask(TEAM, steps.append) as ask:
        request = (await ask(Ask("x"), "high")).request
    agents = {"high": True, "low": True, "tool": False}
    whole = OpenRequests("test", agents)
    (known,) = {
        span.id for step in steps for span in whole.take(step) if span.about.name == "invoke_agent low"
    }
    for half in range(1, len(steps)):
        later = OpenRequests("test", agents)
        for step in steps[:half]:
            later.take(step)
        thread = next(one.thread for step in steps for one in step if one.to == "low")
        begun = later.find_turn(request, thread)
        if begun is not None:
            answer = delivery(request, thread, origin="below")
            assert RunningTurns(later.find_turn).span(answer, b"another.") == known == begun.id
        rest = [span for step in steps[half:] for span in later.take(step)]
        assert {span.id for span in rest if span.about.name == "invoke_agent low"} <= {known}


def delivery(request, thread, *, origin):
    return Delivery("d", "c", request, thread, origin, "tool", "low", "{n}Answer", b"", 3)


async def test_requests_on_one_thread_are_distinguished_by_their_caller():
    turns = RunningTurns(lambda request, thread: None)
    first = turns.span(delivery("r", "t", origin="caller"), b"first...")
    assert turns.span(delivery("r", "t", origin="tool"), b"other...") == first == b"first..."
    assert turns.span(delivery("r2", "t", origin="caller"), b"second..") == b"second.."
    assert turns.span(delivery("r", "t", origin="tool"), b"other...") == first
    assert turns.span(delivery("r", "t", origin="caller"), b"again...") == b"again..."
