"""An external effect is done once, or its outcome is unknown until a hook or an operator decides."""

from __future__ import annotations

import logging

import anyio
import pytest
from click.testing import CliRunner

from agentserver import HandlerResponse, invocation
from agentserver.cli import cli
from agentserver.contract import Code
from agentserver.core.messages import EffectVerdict
from agentserver.core.records.audit import Event
from agentserver.core.records.wording import WORDING
from agentserver.effects import NOT_DONE, EffectUnknown
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import JournalOptions
from agentserver.history.replay import replay
from agentserver.pump.pump import NO_HOOKS
from tests.core.paper import Answer, Ask, listener
from tests.pump.desk import desk, wait_until
from tests.pump.pair import pair

pytestmark = pytest.mark.anyio
respond = HandlerResponse.respond


class Bank:
    """Pays, and fails as it is asked to."""

    def __init__(self, reconcile=None):
        self.paid, self.asked, self.tokens, self.reconcile = [], [], [], reconcile

    async def pay(self, payload, metadata):
        """Pay; the text says where the work ends: before, between or after the payment and the record of it."""
        effect = await invocation().effect("charge-42", reconcile=self.reconcile and self.ask)
        self.tokens.append(effect.token)
        if effect.done:
            return respond(Answer(f"again {effect.answer}"))
        if payload.text == "wait":
            await anyio.sleep_forever()
        self.paid.append(effect.id)
        if payload.text == "between":
            raise ValueError("lost the connection")
        await effect.finish("receipt")
        if payload.text == "after" and not invocation().attempt:
            raise ValueError("lost the answer")
        return respond(Answer(effect.answer))

    def ask(self, effect):
        self.asked.append(effect.id)
        return self.reconcile


def seen_effects(d):
    return [WORDING.first(r.detail).partition(" (")[0] for r in d.records if r.event is Event.EFFECT]


def ledger(d, handle):
    return d.pump.conversation(handle.id).ledger


async def test_an_effect_is_done_once_in_its_conversation():
    bank = Bank()
    async with desk((listener("a"), bank.pay)) as d:
        handle = await d.open()
        assert [await d.ask(Ask("x"), handle=handle) for _ in range(2)] == [
            Answer("receipt"),
            Answer("again receipt"),
        ]
        assert len(bank.paid) == 1
        assert seen_effects(d) == ["charge-42: claimed", "charge-42: done"]
        assert await d.ask(Ask("x")) == Answer("receipt"), "another conversation has a ledger of its own"


async def test_a_failure_after_the_record_repeats_nothing():
    bank = Bank()
    async with desk((listener("a", retries=1), bank.pay)) as d:
        assert await d.ask(Ask("after")) == Answer("again receipt")
        assert len(bank.paid) == 1


async def test_an_unknown_effect_is_not_repeated_by_retries():
    bank = Bank()
    async with desk((listener("a", retries=3), bank.pay)) as d:
        handle = await d.open()
        assert (await d.ask(Ask("between"), handle=handle)).code is Code.INTERNAL
        assert len(bank.paid) == 1
        (effect,) = ledger(d, handle).values()
        failed = [r for r in d.records if r.event is Event.FAILED]
        assert f"agentserver effects settle {effect.id}" in WORDING.first(failed[-1].detail)
        assert len([r for r in d.records if r.event is Event.RETRIED]) == 1, (
            "the second attempt says so at once"
        )


@pytest.mark.parametrize(
    ("verdict", "answer", "paid"), [("found", "again found", 1), (NOT_DONE, "receipt", 2)]
)
async def test_a_hook_decides_about_an_unknown_effect(verdict, answer, paid):
    bank = Bank(verdict)
    async with desk((listener("a"), bank.pay)) as d:
        handle = await d.open()
        assert (await d.ask(Ask("between"), handle=handle)).code is Code.INTERNAL
        assert await d.ask(Ask("x"), handle=handle) == Answer(answer)
        assert len(bank.paid) == paid
        assert bank.asked == bank.paid[:1]
        assert set(bank.paid) == set(bank.paid[:1]), "the id is the same for each attempt"


async def test_a_missed_deadline_and_a_cancelled_request_leave_an_unknown_outcome():
    bank = Bank()
    async with desk((listener("a", deadline=0.05), bank.pay)) as d:
        handle = await d.open()
        assert (await d.ask(Ask("wait"), handle=handle)).code is Code.TIMEOUT
        assert seen_effects(d)[-1] == "charge-42: unknown"
    async with desk((listener("a"), bank.pay)) as d:
        handle = await d.open()
        request = await d.send(handle, Ask("wait"))
        await wait_until(lambda: ledger(d, handle))
        await d.pump.entrance.cancel("console", handle.id, request, "")
        assert seen_effects(d)[-1] == "charge-42: unknown"
    assert bank.paid == []


async def test_two_claims_at_once_are_not_two_payments():
    async def note_twice(payload, metadata):
        await invocation().effect("one")
        with pytest.raises(EffectUnknown, match="agentserver effects settle"):
            await invocation().effect("one")
        return respond(Answer("once"))

    async with desk((listener("a"), note_twice)) as d:
        assert await d.ask(Ask("x")) == Answer("once")


async def test_no_answer_is_recorded_for_a_finished_invocation():
    left = []

    async def leave_open(payload, metadata):
        left.append(await invocation().effect("one"))
        return respond(Answer("done"))

    async with desk((listener("a"), leave_open)) as d:
        assert await d.ask(Ask("x")) == Answer("done")
        with pytest.raises(RuntimeError, match="has ended"):
            await left[0].finish("late")


@pytest.mark.parametrize(
    ("given", "answer", "paid"),
    [(("--done", "receipt"), "again receipt", 0), (("--not-done",), "receipt", 1)],
)
async def test_an_operator_decides_after_a_kill_on_record(tmp_path, caplog, given, answer, paid):
    caplog.set_level(logging.CRITICAL)
    place, bank = JournalOptions(tmp_path / "j"), Bank()
    async with SqliteEngine(place) as engine, desk((listener("a"), bank.pay), engine=engine, drain=0.0) as d:
        handle = await d.open()
        await handle.send(d.markup(Ask("wait")), "a")
        await wait_until(lambda: ledger(d, handle))
    bank.paid.clear()
    async with SqliteEngine(place) as engine:
        people = NO_HOOKS._replace(answers=engine.answers)
        async with desk((listener("a"), bank.pay), engine=engine, people=people) as d:
            handle = await d.pump.resume("console", handle.id)
            await wait_until(lambda: any(r.event is Event.FAILED for r in d.records))
            said = await anyio.to_thread.run_sync(run, place, 0, "effects", "--json")
            assert '"state": "unknown"' in said
            assert '"key": "charge-42"' in said
            (effect,) = ledger(d, handle).values()
            assert await anyio.to_thread.run_sync(run, place, 0, "effects", "settle", effect.id[:16], *given)
            await wait_until(lambda: seen_effects(d)[-1] != "charge-42: unknown")
            assert "decided by" in seen_effects(d)[-1]
            assert await d.ask(Ask("x"), handle=handle) == Answer(answer)
            assert len(bank.paid) == paid
            assert max(bank.tokens) > 1, "the second server claims under a greater epoch"
            story = await engine.read(lambda reader: reader.recorded_conversation(handle.id))
            assert replay(story, d.rules) is None


def run(place, code, verb, *arguments):
    """Run a verb on the journal; its exit code is ``code``."""
    done = CliRunner().invoke(cli, [verb, *arguments, "--journal", str(place.path)])
    assert done.exit_code == code, done.output
    return done.output


async def test_a_stored_verdict_counts_for_a_message_that_precedes_its_reading(tmp_path):
    place, bank = JournalOptions(tmp_path / "j"), Bank()
    async with SqliteEngine(place) as engine:
        people = NO_HOOKS._replace(answers=engine.answers)
        async with desk((listener("a"), bank.pay), engine=engine, people=people) as d:
            handle = await d.open()
            assert (await d.ask(Ask("between"), handle=handle)).code is Code.INTERNAL
            (effect,) = ledger(d, handle).values()
            told = "effects", "settle", effect.id, "--done", "receipt"
            await anyio.to_thread.run_sync(run, place, 0, *told)
            assert await d.ask(Ask("x"), handle=handle) == Answer("again receipt")
            assert await engine.answers.list_verdicts() == []


async def test_an_unknown_effect_stays_listed_after_the_end_of_its_conversation(tmp_path):
    place, bank = JournalOptions(tmp_path / "j"), Bank()
    async with SqliteEngine(place) as engine, desk((listener("a"), bank.pay), engine=engine) as d:
        handle = await d.open()
        assert (await d.ask(Ask("between"), handle=handle)).code is Code.INTERNAL
        await handle.close()
        (effect,) = await engine.read(lambda reader: reader.list_effects())
        assert (effect.key, effect.state) == ("charge-42", "unknown")


async def test_an_unknown_effect_of_an_ended_conversation_is_settled_off_the_list(tmp_path):
    place, bank = JournalOptions(tmp_path / "j"), Bank()
    async with SqliteEngine(place) as engine, desk((listener("a"), bank.pay), engine=engine) as d:
        handle = await d.open()
        await d.ask(Ask("between"), handle=handle)
        await handle.close()
        (effect,) = await engine.read(lambda reader: reader.list_effects())
        told = await anyio.to_thread.run_sync(run, place, 0, "effects", "settle", effect.id, "--not-done")
        assert "charge-42: not done; its conversation has ended" in told
        await anyio.sleep(0.05)
    async with SqliteEngine(place) as engine, desk((listener("a"), bank.pay), engine=engine):
        await anyio.sleep(0.05)
        assert await engine.read(lambda reader: list(reader.list_effects())) == []
        assert await engine.answers.list_verdicts() == []
    told = await anyio.to_thread.run_sync(run, place, 2, "effects", "settle", effect.id, "--not-done")
    assert "no external effects" in told


async def test_a_verdict_reaches_a_conversation_of_another_server():
    bank = Bank()
    async with pair((listener("a"), bank.pay)) as two:
        handle = await two.a.open()
        assert (await two.a.ask(Ask("between"), handle=handle)).code is Code.INTERNAL
        (effect,) = ledger(two.a, handle).values()
        verdict = EffectVerdict(effect.id, None, "ada")
        assert await two.b.pump.entrance.settle(handle.id, verdict)
        assert ledger(two.a, handle) == {}
        assert not await two.b.pump.entrance.settle(handle.id, verdict), "it is settled"
        assert await two.a.ask(Ask("x"), handle=handle) == Answer("receipt")
        assert len(bank.paid) == 2
