"""Answers that are not whole, over real HTTP: none of them passes for a success, and a caller may want them all the same."""

from __future__ import annotations

import pytest

from agentserver.completion import (
    Backend,
    Completion,
    CompletionError,
    CompletionFault,
    Finish,
    ToolCall,
    Usage,
)
from tests.llm.conftest import models, request, scripted
from tests.llm.providers import HALF
from tests.llm.test_typed import Grade

pytestmark = pytest.mark.anyio
BOTH = pytest.mark.parametrize("provider", ["openai", "anthropic"])
PIECES = pytest.mark.parametrize("stream", [False, True])
ENDS = pytest.mark.parametrize(
    ("model", "finish"),
    [
        ("length", Finish.LENGTH),
        ("refusal", Finish.REFUSAL),
        ("unheard-of", Finish.CUT),
        ("unsaid", Finish.CUT),
    ],
)


@BOTH
@PIECES
@ENDS
async def test_an_answer_that_is_not_whole_is_an_error(remote, provider, stream, model, finish):
    async with models(remote(model, provider, stream=stream), retries=0) as completer:
        with pytest.raises(CompletionError) as caught:
            await completer.complete("m", request())
    assert caught.value.fault == finish.value
    assert caught.value.partial is not None
    assert caught.value.partial.finish is finish
    assert caught.value.partial.content in (HALF, "I will not.")
    assert HALF not in str(caught.value)


@BOTH
@PIECES
@ENDS
async def test_who_wants_a_partial_answer_gets_it_with_its_finish(remote, provider, stream, model, finish):
    async with models(remote(model, provider, stream=stream), retries=0) as completer:
        done = await completer.complete("m", request(partial=True))
    assert done.finish is finish
    assert done.content in (HALF, "I will not.")
    assert done.usage.tokens == 14


@PIECES
async def test_a_filtered_answer_is_an_error(remote, stream):
    async with models(remote("filter", stream=stream), retries=0) as completer:
        with pytest.raises(CompletionError) as caught:
            await completer.complete("m", request())
        done = await completer.complete("m", request(partial=True))
    assert caught.value.fault is CompletionFault.FILTER
    assert (done.finish, done.content) == (Finish.FILTER, HALF)


@BOTH
async def test_a_stream_without_its_end_is_cut(remote, provider):
    async with models(remote("ended", provider, stream=True), retries=0) as completer:
        with pytest.raises(CompletionError) as caught:
            await completer.complete("m", request())
    assert caught.value.fault is CompletionFault.CUT
    assert caught.value.partial is not None
    assert HALF.startswith(caught.value.partial.content)


@BOTH
async def test_a_stream_whose_finish_came_is_whole_without_its_last_event(remote, provider):
    async with models(remote("undone", provider, stream=True), retries=0) as completer:
        done = await completer.complete("m", request())
    assert (done.content, done.finish) == (HALF, Finish.STOP)


@BOTH
@PIECES
async def test_a_whole_answer_says_how_it_ended(remote, provider, stream):
    from tests.llm.test_backends import SEARCH

    async with models(remote("tool", provider, stream=stream)) as completer:
        assert (await completer.complete("m", request(tools=(SEARCH,)))).finish is Finish.TOOL_CALLS
    async with models(remote("ok", provider, stream=stream)) as completer:
        assert (await completer.complete("m", request())).finish is Finish.STOP


@BOTH
@pytest.mark.parametrize("model", ["refusal", "unsaid"])
async def test_another_backend_is_asked_for_a_whole_answer(remote, providers, provider, model):
    async with models(remote(model, provider), remote("ok", provider), retries=0) as completer:
        done = await completer.complete("m", request())
    assert done.content == "hello from ok"
    assert done.usage.tokens == 28, "the answer that was not whole costs too"
    assert providers.models() == [model, "ok"]


@BOTH
async def test_an_answer_at_the_limit_of_tokens_is_not_asked_for_again(remote, providers, provider):
    async with models(remote("length", provider), remote("ok", provider)) as completer:
        with pytest.raises(CompletionError):
            await completer.complete("m", request())
    assert providers.models() == ["length"]


@BOTH
async def test_a_cut_stream_is_never_repaired(remote, providers, provider):
    """The prompt stays the same at each attempt: the model gets no part of the half answer."""
    async with models(remote("ended", provider, stream=True), retries=1) as completer:
        with pytest.raises(CompletionError) as caught:
            await completer.complete("m", request(output=Grade))
    assert caught.value.fault is CompletionFault.CUT
    assert len(providers.asked) == 2
    assert providers.asked[0]["messages"] == providers.asked[1]["messages"]


@pytest.mark.parametrize("finish", [one for one in Finish if not one.complete])
async def test_a_partial_answer_has_no_value_of_a_class(finish):
    cut = Completion(
        calls=(ToolCall("1", "Grade", '{"points": 4'),), finish=finish, usage=Usage(1, 1, 1, 0.0)
    )
    async with models(Backend("b", "scripted", "b", script=lambda _: cut)) as completer:
        done = await completer.complete("m", request(output=Grade, partial=True))
    assert (done.output, done.finish) == (None, finish)


async def test_a_script_ends_an_answer_otherwise():
    async with models(scripted("b", {"text": "half", "finish": "length"}), retries=0) as completer:
        with pytest.raises(CompletionError) as caught:
            await completer.complete("m", request())
    assert caught.value.fault is CompletionFault.LENGTH
