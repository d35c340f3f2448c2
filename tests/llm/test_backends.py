"""Both protocols over real HTTP: answers, tool calls, streams, and what each failure is taken for."""

from __future__ import annotations

import logging

import anyio
import pytest
from opentelemetry.context import attach, detach
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from agentserver.completion import CompletionError, CompletionFault, Tool, ToolCall
from tests.llm.conftest import models, request
from tests.machine import HANGS

pytestmark = pytest.mark.anyio
BOTH = pytest.mark.parametrize("provider", ["openai", "anthropic"])
PIECES = pytest.mark.parametrize("stream", [False, True])

SEARCH = Tool("search", "Finds.", {"type": "object", "properties": {"text": {"type": "string"}}})
TELL = Tool("tell", "Tells.", {"type": "object", "properties": {"text": {"type": "string"}}})


@BOTH
@PIECES
async def test_a_text_comes_with_its_usage(remote, provider, stream):
    async with models(remote(provider=provider, stream=stream)) as completer:
        done = await completer.complete("m", request())
    assert done.content == "hello from ok"
    assert (done.usage.input_tokens, done.usage.output_tokens, done.usage.calls) == (11, 3, 1)
    assert done.model == "ok"
    assert done.usage.money is None


@BOTH
@PIECES
async def test_the_settings_of_a_model_reach_the_provider(remote, providers, provider, stream):
    said = {"temperature": 0.2, "stop": ["END"], "metadata": {"user_id": "ada"}}
    async with models(remote(provider=provider, stream=stream), settings=said) as completer:
        await completer.complete("m", request())
    (body,) = providers.asked
    assert body["temperature"] == 0.2
    assert body["stop" if provider == "openai" else "stop_sequences"] == ["END"]
    assert body["metadata"] == {"user_id": "ada"}


@BOTH
@PIECES
async def test_parallel_calls_and_their_results(remote, providers, provider, stream):
    async with models(remote("tool", provider, stream=stream)) as completer:
        first = await completer.complete("m", request(tools=(SEARCH, TELL)))
        assert [(call.name, call.arguments.replace(" ", "")) for call in first.calls] == [
            ("search", '{"text":"x"}'),
            ("tell", '{"text":"x"}'),
        ]
        results = [
            {"role": "tool", "id": call.id, "name": call.name, "content": f"of {call.name}"}
            for call in first.calls
        ]
        said = [{"role": "user", "content": "ping"}, {"role": "assistant", "calls": first.calls}, *results]
        second = await completer.complete("m", request(*said, tools=(SEARCH, TELL)))
    assert second.content == "hello from tool"
    assert "of search" in str(providers.asked[-1])
    assert "of tell" in str(providers.asked[-1])


@BOTH
@pytest.mark.parametrize(
    ("model", "fault"),
    [
        ("429", CompletionFault.RATE),
        ("500", CompletionFault.SERVER),
        ("503", CompletionFault.UNAVAILABLE),
        ("401", CompletionFault.CREDENTIALS),
        ("403", CompletionFault.CREDENTIALS),
        ("404", CompletionFault.REJECTED),
        ("overflow", CompletionFault.CONTEXT),
    ],
)
async def test_each_failure_is_of_a_kind_and_is_sent_once(remote, providers, provider, model, fault):
    async with models(remote(model, provider), retries=0) as completer:
        with pytest.raises(CompletionError) as caught:
            await completer.complete("m", request())
    assert caught.value.fault is fault
    assert len(providers.asked) == 1


@BOTH
async def test_a_dropped_stream_is_a_failure_of_the_connection(remote, provider):
    async with models(remote("drop", provider, stream=True), retries=0) as completer:
        with pytest.raises(CompletionError) as caught:
            await completer.complete("m", request())
    assert caught.value.fault is CompletionFault.CONNECTION


@BOTH
async def test_a_slow_backend_is_left(remote, provider):
    with anyio.fail_after(HANGS):
        async with models(
            remote("slow", provider, timeout=0.2), remote("ok", provider), retries=0
        ) as completer:
            assert (await completer.complete("m", request())).model == "ok"


async def test_a_backend_that_is_not_there(remote):
    gone = remote("ok")
    gone = type(gone)("gone", "openai", "ok", "canary-key-7781", "http://127.0.0.1:9")
    async with models(gone, retries=0) as completer:
        with pytest.raises(CompletionError) as caught:
            await completer.complete("m", request())
    assert caught.value.fault is CompletionFault.CONNECTION


@BOTH
@pytest.mark.parametrize("model", ["ok", "401", "500"])
async def test_the_key_goes_to_the_provider_and_nowhere_else(remote, providers, provider, model, caplog):
    caplog.set_level(logging.DEBUG)
    told = ""
    async with models(remote(model, provider), retries=0) as completer:
        try:
            told = repr(await completer.complete("m", request()))
        except CompletionError as error:
            told = f"{error!r} {error} {error.__context__} {error.__cause__}"
        told += repr(completer)
    assert providers.keys == ["canary-key-7781"]
    assert "canary-key-7781" not in told
    assert "canary-key-7781" not in caplog.text


async def test_a_result_that_follows_no_call_is_not_sent(remote, providers):
    orphan = {"role": "tool", "id": "1", "name": "search", "content": "x"}
    async with models(remote()) as completer:
        with pytest.raises(ValueError, match="follows no such call"):
            await completer.complete("m", request(orphan))
        with pytest.raises(ValueError, match="no provider takes the name"):
            await completer.complete("m", request(tools=(Tool("a.b", "", {}),)))
    assert providers.asked == []
    assert ToolCall("1", "a", "{}").arguments == "{}"


@BOTH
@pytest.mark.parametrize("told", [False, True])
async def test_a_provider_is_named_the_span_that_asks_it(remote, providers, provider, told):
    spanned = SpanContext(0xABC, 0xDEF, is_remote=False, trace_flags=TraceFlags(1))
    token = attach(set_span_in_context(NonRecordingSpan(spanned))) if told else None
    try:
        async with models(remote(provider=provider)) as completer:
            await completer.complete("m", request())
    finally:
        if token is not None:
            detach(token)
    assert providers.spans == [f"00-{0xABC:032x}-{0xDEF:016x}-01" if told else None]
