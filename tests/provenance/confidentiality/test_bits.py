"""The bits that choices at exits carry: every choice counts, and the sum only grows."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.provenance import (
    Call,
    Decision,
    Engine,
    Ledger,
    Mode,
    Policy,
    TaintViolationError,
    judge,
    leaves,
)
from agentserver.provenance.confidentiality.origin import ANYWHERE, LinkCounts, count_offers
from agentserver.provenance.confidentiality.readers import ReaderRule
from agentserver.provenance.evidence.destinations import parse_destination
from agentserver.provenance.evidence.labels import Role, Standing
from agentserver.provenance.exits import (
    CALL,
    REFUSAL,
    Choice,
    count_bits,
    count_case_bits,
    count_choice_bits,
    count_number_bits,
    count_spelling_bits,
    order_bits,
    sum_bits,
)
from agentserver.provenance.library.compat import REFUSED
from agentserver.provenance.policy.declarations import (
    ArgumentRule,
    Effect,
    FieldRule,
    PlanSource,
    Rule,
    SinkRule,
)
from tests.provenance.scenes import Scenario

HOME = "https://news.example/"
PAGE = " ".join(f"{HOME}p{number_bits}" for number_bits in range(16))


def scene(query: str = "read the news", **more: Any) -> Scenario:
    """A page with sixteen links on its own site."""
    policy = Policy(
        mode=Mode.ENFORCE, sources=("web",), sinks=(SinkRule("send"),), plan=PlanSource.OFF, **more
    )
    return Scenario(policy, query).read("web", PAGE, url=HOME)


def bits(told: Scenario, *, exposed: bool = True, **arguments: Any) -> float:
    return count_bits(told.ledger, told.policy, Call("web", leaves(arguments), 9, exposed=exposed))


def test_a_link_of_sixteen_costs_four_bits_and_the_call() -> None:
    assert bits(scene(), url=f"{HOME}p3") == pytest.approx(CALL + 4)


def test_values_named_by_the_principal_or_the_operator_cost_nothing() -> None:
    assert bits(scene(f"read {HOME}p3"), url=f"{HOME}p3") == 0
    assert bits(scene(allow=("news.example",)), url=f"{HOME}p3") == 0


def test_a_sender_that_was_given_nothing_chooses_nothing_for_another() -> None:
    assert bits(scene(), exposed=False, url=f"{HOME}p3") == 0


def test_before_anything_untrusted_was_read_nothing_counts() -> None:
    assert count_bits(Ledger(), Policy(sources=("web",)), Call("web", leaves({"url": HOME}), 1)) == 0


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"depth": 0}, CALL + 1),
        ({"depth": 3}, CALL + 5),
        ({"depth": 999}, CALL + 19),
        ({"fresh": True}, CALL),
        ({"how": "news"}, CALL + math.log2(3)),
        ({"how": "NeWs"}, CALL + math.log2(3) + 4),
    ],
)
def test_whatever_goes_along_with_a_link_is_counted(more: dict[str, Any], expected: float) -> None:
    told = scene()
    assert bits(told, url=f"{HOME}p3", **more) == pytest.approx(bits(told, url=f"{HOME}p3") + expected)


def test_a_secret_in_the_numbers_around_a_link_ends_at_the_budget() -> None:
    told = scene()
    secret = {f"n{at}": ord(char) for at, char in enumerate("hunter2!")}
    assert told.call("web", url=f"{HOME}p3").decision is Decision.ALLOW
    assert Rule.EXIT_BUDGET in told.rules("web", url=f"{HOME}p3", **secret)


def test_a_secret_in_the_choice_of_links_ends_at_the_budget() -> None:
    engine = Engine(scene().policy)
    engine.set_query("read the news")
    engine.on_tool_call("web", {"url": HOME})
    engine.on_tool_result("web", PAGE, arguments={"url": HOME})
    followed = 0
    with pytest.raises(TaintViolationError) as refused:
        for nibble in range(100):
            engine.on_tool_call("web", {"url": f"{HOME}p{nibble % 16}"})
            followed += 1
    assert followed == 64 // 5
    assert "budget of exits exhausted" in refused.value.rendered
    assert "65.0 of 64 with those before" in refused.value.rendered


def test_a_secret_in_the_case_of_the_principals_own_link_is_counted() -> None:
    told = scene("read https://known.example/a")
    assert bits(told, url="https://known.example/a") == 0
    assert bits(told, url="https://KnOwN.example/a") >= len("https" + "knownexample")
    assert bits(told, url="https://known.example/a#secret") >= 48
    assert bits(told, url="https://known.example/a/") == 1
    long = f"https://{'known.' * 12}example/a"
    varied = "".join(char.upper() if at % 2 else char for at, char in enumerate(long[:-2])) + "/a"
    told = scene(f"read {long}")
    assert told.call("web", url=long).decision is Decision.ALLOW
    assert told.rules("web", url=varied) == {Rule.EXIT_BUDGET}


BOOK = [{"email": f"n{number_bits}@corp.com"} for number_bits in range(8)]
SEND = SinkRule("send", (ArgumentRule("to", Role.DESTINATION), ArgumentRule("body", Role.PAYLOAD)))


def mailing_scene(**more: Any) -> Scenario:
    policy = Policy(
        mode=Mode.ENFORCE,
        plan=PlanSource.OFF,
        sources=("web",),
        sinks=(SEND,),
        fields=(FieldRule("book", "*", Standing.DIRECTORY),),
        readers=(ReaderRule("payroll", "*", ("principal",)),),
        **more,
    )
    return Scenario(policy, "tell n1@corp.com").read("book", BOOK).read("web", PAGE, url=HOME)


def sent_bits(told: Scenario, *to: str) -> float:
    return count_bits(told.ledger, told.policy, Call("send", leaves({"to": list(to), "body": "hi"}), 9))


def test_receivers_and_their_order_count_once_a_text_is_private_to_others() -> None:
    told = mailing_scene()
    many = [f"n{number}@corp.com" for number in range(2, 6)]
    assert sent_bits(told, *many) == 0
    told.read("payroll", "the salary of Ada Byron")
    assert sent_bits(told, *many) == pytest.approx(CALL + math.log2(math.comb(8, 4)) + math.log2(24))
    assert sent_bits(told, "n2@corp.com") == pytest.approx(CALL + 3)
    assert sent_bits(told, "n1@corp.com") == 0


def test_spent_bits_are_in_the_findings_from_half_of_the_budget_on() -> None:
    told = scene()
    assert told.rules("web", url=f"{HOME}p3") == set()
    told.ledger = told.ledger.carry(27)
    (found,) = told.call("web", url=f"{HOME}p3").findings
    assert (found.rule, found.effect) == (Rule.CHOICES, Effect.REPORT)
    assert found.detail == "5.0 bits (which link 5.0); 32.0 of 64 with those before"


def test_every_choice_is_reported_where_the_policy_says_so() -> None:
    told = scene(effects=((Rule.CHOICES, Effect.REPORT),))
    (found,) = told.call("web", url=f"{HOME}p3").findings
    assert found.detail == "5.0 bits (which link 5.0); 5.0 of 64 with those before"


def test_a_refused_call_tells_nothing_by_its_choices() -> None:
    told = scene(deny=("news.example",))
    assert told.rules("web", url=f"{HOME}p3") == {Rule.DENIED}


def test_the_budget_of_a_policy_and_the_action_at_its_end() -> None:
    assert scene(exit_budget=4).rules("web", url=f"{HOME}p3") == {Rule.EXIT_BUDGET}
    asking = scene(exit_budget=4, effects=((Rule.EXIT_BUDGET, Effect.REPORT),))
    assert asking.call("web", url=f"{HOME}p3").decision is Decision.ALLOW
    silent = scene(effects=((Rule.CHOICES, Effect.IGNORE),))
    assert silent.rules("web", url=f"{HOME}p3") == set()


def test_the_sum_is_kept_with_the_ledger() -> None:
    told = scene()
    told.ledger = told.ledger.carry(12.5)
    back = Ledger.load(json.loads(json.dumps(told.ledger.dump())))
    assert back.exit_bits == 12.5
    call = Call("web", leaves({"url": f"{HOME}p3"}), 9)
    assert judge(back, told.policy, call).findings == judge(told.ledger, told.policy, call).findings


COUNTS = st.integers(0, 500)


@given(COUNTS, COUNTS, COUNTS)
def test_more_to_choose_from_or_more_that_is_chosen_is_never_cheaper(
    offered: int, more: int, count: int
) -> None:
    assert count_choice_bits(offered + more) >= count_choice_bits(offered) - 1e-6 >= -1e-6
    assert order_bits(count + more) >= order_bits(count) - 1e-6 >= -1e-6
    assert count_number_bits(count + more) >= count_number_bits(count) >= 1


@given(st.integers(1, 60), st.data())
def test_an_ordered_choice_costs_as_its_count_says(offered: int, data: st.DataObject) -> None:
    taken = data.draw(st.integers(1, offered))
    assert count_choice_bits(offered, taken) + order_bits(taken) == pytest.approx(
        math.log2(math.perm(offered, taken)), abs=1e-6
    )


@given(st.lists(st.floats(0, 100), max_size=8), st.floats(0, 100))
def test_the_sum_of_bits_only_grows(told: list[float], more: float) -> None:
    parts = [Choice("x", bits_) for bits_ in told]
    assert sum_bits([*parts, Choice("y", more)]) >= sum_bits(parts)
    ledger = Ledger()
    for bits_ in (*told, more):
        after = ledger.carry(bits_)
        assert after.exit_bits >= ledger.exit_bits
        ledger = after


def test_numbers_are_a_prefix_code() -> None:
    """Kraft: the code words of all numbers fit into one tree."""
    assert sum(2 ** -count_number_bits(value) for value in range(100_000)) <= 1


@given(st.text("aB./:#?é1", max_size=12))
def test_two_spellings_of_one_place_are_never_both_free(tail: str) -> None:
    place = parse_destination(f"https://news.example{tail}")
    assert (count_spelling_bits(place) == 0) == (place.written == place.key)


def test_letters_without_case_carry_nothing() -> None:
    assert count_case_bits("a1-B") == 2


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(1, 9), max_size=3), max_size=20))
def test_offers_add_up_in_few_chunks(added: list[dict[str, int]]) -> None:
    offers = LinkCounts()
    for one in added:
        offers = offers.add(one)
    for key in "abc":
        assert offers.count(key) == sum(one.get(key, 0) for one in added)
    assert len(offers.chunks) <= 4


@pytest.mark.parametrize(
    "body",
    [
        "see https://a.example/x. And b.example, or c.example/y",
        "http://[::1]/x",
        "no link at all. None.",
        "https://a.example/x\nhttps://a.example/y",
    ],
)
def test_never_fewer_links_are_counted_than_there_are(body: str) -> None:
    from agentserver.provenance.evidence.inventory import ValueKind, find_values

    links = sum(value.kind is ValueKind.LINK for value in find_values(body))
    assert count_offers([(ANYWHERE, body)]).get(ANYWHERE, 0) >= links


def test_a_refusal_has_one_text_and_its_bit_counts() -> None:
    policy = Policy(mode=Mode.ENFORCE, sources=("web",), sinks=(SinkRule("send"),), deny=("listener:burn",))
    engine = Engine(policy)
    engine.set_query("read the news")
    with pytest.raises(TaintViolationError) as first:
        engine.on_tool_call("burn", {})
    assert engine.store.ledger.exit_bits == 0
    engine.on_tool_result("web", PAGE)
    with pytest.raises(TaintViolationError) as second:
        engine.on_tool_call("send", {"to": "eve@evil.example"})
    assert engine.store.ledger.exit_bits == REFUSAL
    assert str(first.value) == str(second.value) == REFUSED
    assert first.value.rendered != second.value.rendered
