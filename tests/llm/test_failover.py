"""Failover over real HTTP: each failure that another backend need not share has that backend asked."""

from __future__ import annotations

import pytest

from agentserver.completion import Backend, Completion, CompletionError, CompletionFault
from tests.llm.conftest import models, request
from tests.llm.providers import MALFORMED

pytestmark = pytest.mark.anyio
BOTH = pytest.mark.parametrize("provider", ["openai", "anthropic"])
PIECES = pytest.mark.parametrize("stream", [False, True])
REFUSALS = ["400", "401", "403", "404", "429", "500", "503", "overflow", "quota"]


@BOTH
@PIECES
@pytest.mark.parametrize("model", [*MALFORMED, *REFUSALS])
async def test_another_backend_is_asked(remote, providers, provider, stream, model):
    async with models(
        remote(model, provider, stream=stream), remote("ok", provider, stream=stream), retries=0
    ) as completer:
        done = await completer.complete("m", request())
    assert done.content == "hello from ok"
    assert providers.models() == [model, "ok"]
    assert [one.backend for one in done.attempts] == [model, "ok"]
    assert done.attempts[1].fault is None


@BOTH
@PIECES
@pytest.mark.parametrize("model", MALFORMED)
async def test_a_malformed_answer_is_of_its_own_kind(remote, provider, stream, model):
    async with models(remote(model, provider, stream=stream), retries=0) as completer:
        with pytest.raises(CompletionError) as caught:
            await completer.complete("m", request())
    assert caught.value.fault is CompletionFault.MALFORMED
    assert "html" not in str(caught.value).replace(model, "")


async def test_an_exhausted_quota_is_no_rate_limit(remote, providers):
    async with models(remote("quota")) as completer:
        with pytest.raises(CompletionError) as caught:
            await completer.complete("m", request())
    assert caught.value.fault is CompletionFault.QUOTA
    assert len(providers.asked) == 1, "waiting does not bring back a quota"


@BOTH
async def test_the_error_names_each_backend_and_its_status(remote, provider):
    async with models(remote("401", provider), remote("503", provider), retries=0) as completer:
        with pytest.raises(CompletionError) as caught:
            await completer.complete("m", request())
    told = [(one.backend, one.fault, one.status) for one in caught.value.attempts]
    assert told == [("401", CompletionFault.CREDENTIALS, 401), ("503", CompletionFault.UNAVAILABLE, 503)]
    assert "401 answered 401 (credentials)" in str(caught.value)
    assert "503 answered 503 (unavailable)" in str(caught.value)


async def test_a_backend_in_its_pause_is_waited_for_while_the_other_is_dead(remote, providers):
    providers.retry_after = "2"  # longer than all pauses of the dead backend together
    async with models(remote("429-then-ok"), remote("500"), retries=1) as completer:
        done = await completer.complete("m", request())
    assert done.content == "hello from 429-then-ok"
    assert providers.models() == ["429-then-ok", "500", "500", "429-then-ok"]


async def test_it_is_not_waited_for_beyond_the_deadline(remote, providers):
    providers.retry_after = "3600"
    async with models(remote("429"), remote("401")) as completer:
        with pytest.raises(CompletionError) as caught:
            await completer.complete("m", request(until=5))
    assert [one.backend for one in caught.value.attempts] == ["429", "401"]


async def test_a_backend_that_refuses_for_good_is_asked_once(remote, providers):
    async with models(remote("401"), remote("500-then-ok"), retries=2) as completer:
        assert (await completer.complete("m", request())).content == "hello from 500-then-ok"
    assert providers.models() == ["401", "500-then-ok", "500-then-ok"]


async def test_a_budget_that_is_spent_ends_it():
    asked = []

    def raise_spent(prompt):
        raise CompletionError(CompletionFault.BUDGET, "one")

    def complete_two(prompt):
        asked.append(prompt)
        return Completion("two")

    one, two = (
        Backend("one", "scripted", "1", script=raise_spent),
        Backend("two", "scripted", "2", script=complete_two),
    )
    async with models(one, two) as completer:
        with pytest.raises(CompletionError):
            await completer.complete("m", request())
    assert asked == []
