"""The spans of a server at work, as a collector takes them: one tree for each request, whatever happens to the server."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from opentelemetry import trace

from agentserver import HandlerResponse
from agentserver.assembly import build
from agentserver.completion import (
    Attempt,
    Backend,
    Completion,
    CompletionError,
    CompletionFault,
    LanguageModels,
    ModelChoice,
    Usage,
)
from agentserver.config import load
from agentserver.config.organism import Otel
from agentserver.extras import MissingExtraError
from agentserver.flow import ask, gather, sleep, tell
from agentserver.llm import complete
from agentserver.payload.functions import payload_of
from agentserver.telemetry.story import span_id, trace_id
from agentserver.testing import listener, organism_of
from agentserver.trace.traceparent import link_requests, parse_traceparent
from tests.core.paper import Answer, Ask
from tests.machine import HANGS
from tests.telemetry.collector import attributes, collect_spans

pytestmark = pytest.mark.anyio
GOOD = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
DESK = load(Path(__file__).parents[2] / "examples/desks/plain.yaml", environ={}, separate=True)
SEEN = []


async def see(payload: Ask, metadata) -> HandlerResponse:
    SEEN.append(trace.get_current_span().get_span_context())
    return HandlerResponse.respond(Answer(payload.text))


async def ask_model(payload: Ask, metadata) -> HandlerResponse:
    said = await complete(model="small", messages=[{"role": "user", "content": payload.text}])
    return HandlerResponse.respond(Answer(said.content))


class ScriptedCompleter:
    """A completer of a program."""

    def __init__(self):
        self.seen = []

    async def complete(self, model, request):
        self.seen.append(trace.get_current_span().get_span_context())
        await anyio.lowlevel.checkpoint()
        if request.messages[0]["content"] == "fail":
            raise CompletionError(CompletionFault.SERVER, model)
        attempts = (Attempt("one", CompletionFault.SERVER, 503), Attempt("two"))
        return Completion("hunter2", usage=Usage(7, 3, 1, 0.5), model="m-1", attempts=attempts)


SHOP = organism_of(listener("a", see, Ask, replies=[Answer]), listener("m", ask_model, Ask, replies=[Answer]))


def trace_organism(organism, collector, **more):
    return replace(organism, otel=Otel(collector.endpoint + "/v1/traces", **more))


def markup(server, payload):
    return server.rules.codecs.of(type(payload)).encode(payload).encode()


async def asked_requests(organism, *payloads, to="a", **more):
    """The request ids of messages to a server that has ended."""
    server = build(organism, **more)
    with anyio.fail_after(HANGS):
        async with server:
            handle = await server.open("ada")
            return [(await handle.ask(markup(server, payload), to)).request for payload in payloads]


def children(spans):
    """The spans below each one, as they were sent."""
    return {span.span_id: [one for one in spans if one.parent_span_id == span.span_id] for span in spans}


async def test_the_desk_of_the_examples_is_one_tree_for_each_request():
    wish = next(one for one in DESK.listeners if one.listener.name == "clerk").listener.payloads[0]
    with collect_spans() as collector:
        text = "Pay the invoice in mail 13 and tell Kim."
        requests = await asked_requests(trace_organism(DESK, collector), wish(text), wish(text), to="clerk")
        spans = collector.spans
    assert len({span.span_id for span in spans}) == len(spans)
    for request in requests:
        tree = [span for span in spans if span.trace_id == trace_id(request)]
        (root,) = [span for span in tree if not span.parent_span_id]
        assert (root.name, root.span_id) == ("invoke_workflow plain-desk", span_id(request))
        known = {span.span_id: span for span in tree}
        for span in tree:
            if span is not root:
                above = known[span.parent_span_id]
                assert above.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano
        names = [span.name for span in tree]
        assert names.count("execute_tool inbox") == 1
        assert names.count("invoke_agent clerk") == 1
    refused = [event for span in spans for event in span.events if event.name == "refused"]
    assert {attributes(event)["agentserver.code"] for event in refused} == {"denied"}
    assert {attributes(event)["agentserver.rule"] for event in refused} >= {
        "unknown_destination",
        "destination",
    }
    assert "MALLORY" not in str(spans)
    assert collector.resources[0]["telemetry.sdk.name"] == "agentserver"


async def echo(text: str) -> str:
    return text


Echo = payload_of(echo)


async def ask_twice(text: str) -> str:
    await ask("echo", Echo(text))
    await sleep(timedelta(0))
    return (await ask_below(text)).value


async def ask_below(text):
    return (await gather(tell("echo", Echo("x")), ask("agent", Echo(text))))[1]


FLOWS = organism_of(
    listener("flow", ask_twice, peers=["echo", "agent"]),
    listener("echo", echo),
    listener("agent", echo, agent=True, peers=[]),
)


async def test_spans_of_what_a_flow_asks_have_the_place_in_the_source():
    with collect_spans() as collector:
        await asked_requests(trace_organism(FLOWS, collector), payload_of(ask_twice)("a"), to="flow")
        spans = collector.spans
    first, below = ask_twice.__code__.co_firstlineno, ask_below.__code__.co_firstlineno
    found = sorted(
        (span.name, pairs["code.line.number"], pairs["code.function.name"].rpartition(".")[2])
        for span in spans
        if "code.line.number" in (pairs := attributes(span))
    )
    assert found == [
        ("execute_tool echo", first + 1, "ask_twice"),
        ("execute_tool echo", below + 1, "ask_below"),
        ("execute_tool flow", first + 2, "ask_twice"),
        ("invoke_agent agent", below + 1, "ask_below"),
    ]
    placed = [attributes(span) for span in spans if "code.file.path" in attributes(span)]
    assert {pairs["code.file.path"] for pairs in placed} == {__file__}
    assert {pairs["code.function.name"] for pairs in placed} == {
        f"{__name__}.ask_twice",
        f"{__name__}.ask_below",
    }


async def test_content_is_exported_where_asked_for():
    wish = next(one for one in DESK.listeners if one.listener.name == "clerk").listener.payloads[0]
    text = "Pay the invoice in mail 13 and tell Kim."
    with collect_spans() as collector:
        await asked_requests(trace_organism(DESK, collector, content=True), wish(text), to="clerk")
        assert "MALLORY" in str(collector.spans)
        collector.spans.clear()
        await asked_requests(
            trace_organism(DESK, collector, content=True, redact=("*",)), wish(text), to="clerk"
        )
        assert "MALLORY" not in str(collector.spans)


async def test_a_handler_runs_within_the_span_of_its_delivery():
    SEEN.clear()
    with collect_spans() as collector:
        (request,) = await asked_requests(trace_organism(SHOP, collector), Ask("x"))
        (span,) = [one for one in collector.spans if one.parent_span_id]
    (seen,) = SEEN
    assert (seen.trace_id, seen.span_id) == (int.from_bytes(trace_id(request)), int.from_bytes(span.span_id))
    assert seen.trace_flags.sampled
    assert not trace.get_current_span().get_span_context().is_valid


async def test_without_a_collector_no_span_is_current_or_sent():
    SEEN.clear()
    await asked_requests(SHOP, Ask("x"))
    assert not SEEN[0].is_valid


async def test_requests_that_are_not_sampled_are_not_sampled_below_either():
    SEEN.clear()
    with collect_spans() as collector:
        await asked_requests(trace_organism(SHOP, collector, sample=0.0), Ask("x"))
        assert collector.spans == []
    assert SEEN[0].is_valid
    assert not SEEN[0].trace_flags.sampled


async def test_the_span_of_a_completion_is_a_child_of_its_delivery():
    completer = ScriptedCompleter()
    with collect_spans() as collector:
        await asked_requests(
            trace_organism(SHOP, collector), Ask("x"), Ask("fail"), to="m", completer=completer
        )
        chats = [one for one in collector.spans if one.name.startswith("chat")]
        under = {one.span_id: one.name for one in collector.spans}
    good, bad = chats
    assert [under[one.parent_span_id] for one in chats] == ["execute_tool m"] * 2
    assert attributes(good) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "unknown",
        "gen_ai.request.model": "small",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.response.model": "m-1",
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 3,
        "agentserver.cost_usd": 0.5,
    }
    assert (attributes(bad)["error.type"], bad.status.code, bad.kind) == ("server", 2, 3)
    assert [one.span_id for one in completer.seen] == [int.from_bytes(chat.span_id) for chat in chats]
    assert "hunter2" not in str(chats)


async def test_a_completion_is_attributed_to_the_backend_that_answered():
    backends = {name: Backend(name, "scripted", model) for name, model in (("one", "m-0"), ("two", "m-1"))}
    models = LanguageModels(backends, {"small": ModelChoice("small", ("one", "two"))})
    with collect_spans() as collector:
        await asked_requests(
            trace_organism(replace(SHOP, models=models), collector),
            Ask("x"),
            Ask("fail"),
            to="m",
            completer=ScriptedCompleter(),
        )
        good, bad = [one for one in collector.spans if one.name.startswith("chat")]
    assert (good.name, attributes(good)["gen_ai.provider.name"]) == ("chat m-1", "scripted")
    assert (bad.name, attributes(bad)["gen_ai.request.model"]) == ("chat m-0", "m-0")
    (failed,) = good.events
    assert (failed.name, attributes(failed)) == (
        "backend_failed",
        {"agentserver.backend": "one", "error.type": "server", "http.response.status_code": 503},
    )


async def test_who_calls_from_outside_is_linked_and_chooses_no_id(tmp_path):
    with collect_spans() as collector:
        with link_requests(GOOD):
            (request,) = await asked_requests(trace_organism(SHOP, collector), Ask("x"))
        (root,) = [one for one in collector.spans if not one.parent_span_id]
    assert [(one.trace_id, one.span_id) for one in root.links] == [parse_traceparent(GOOD)]
    assert root.trace_id == trace_id(request)


async def test_a_name_of_a_stranger_is_data():
    name = 'ada" evil=\u202e\n<script>'
    with collect_spans() as collector:
        server = build(trace_organism(SHOP, collector))
        with anyio.fail_after(HANGS):
            async with server:
                handle = await server.open("ada")
                await handle.ask(b"<" + name.encode(), name)
        (root,) = collector.spans
    assert attributes(root)["error.type"] in {"validation", "routing"}
    assert "script" not in str(collector.spans)


async def test_a_collector_that_hangs_slows_nothing_down():
    with collect_spans() as collector:
        collector.held.clear()
        server = build(trace_organism(SHOP, collector))
        async with server:
            handle = await server.open("ada")
            with anyio.fail_after(HANGS):
                for _ in range(300):
                    await handle.ask(markup(server, Ask("x")), "a")
            collector.held.set()
        assert server.lost == 0


async def test_an_extra_that_is_missing_is_named_where_the_file_asks_for_it(monkeypatch, caplog):
    monkeypatch.setattr("agentserver.extras.is_installed", lambda extra: False)
    monkeypatch.setattr("agentserver.assembly.is_installed", lambda extra: False)
    with pytest.raises(MissingExtraError, match="otel"):
        async with build(replace(SHOP, otel=Otel("http://127.0.0.1:9"))):
            pass
    async with build(replace(SHOP, otel=Otel("http://127.0.0.1:9", declared=False))) as server:
        assert server.lost is None
    assert "otel" in caplog.text
