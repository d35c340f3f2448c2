"""Endorsements of documents as values: what a question lists, and what it covers."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentserver.provenance import Call, Engine, Mode, Policy, TaintViolationError, judge, leaves
from agentserver.provenance.endorsements import Endorsements
from agentserver.provenance.evidence.labels import Role, Standing
from agentserver.provenance.ledger import Ledger
from agentserver.provenance.library.session import ALWAYS
from agentserver.provenance.policy.declarations import Effect, FieldRule, PlanSource, Rule
from tests.fuzzing import examples
from tests.provenance.scenes import Scenario, sink

PAY = sink(
    "pay",
    to=Role.DESTINATION,
    cc=Role.DESTINATION,
    amount=Role.QUANTITY,
    currency=Role.SELECTOR,
    note=Role.PAYLOAD,
)
POLICY = Policy(
    mode=Mode.CONFIRM,
    sources=("list_bills", "read_*"),
    sinks=(
        PAY,
        sink("refund", to=Role.DESTINATION, amount=Role.QUANTITY),
        sink("delete_file", file_id=Role.SELECTOR),
    ),
    fields=(FieldRule("*", "*", Standing.PROSE),),
    plan=PlanSource.OFF,
)
REQUEST = "Pay the bills of folder march in EUR."
ACME, BETA, EVE = "DE89370400440532013000", "FR7630006000011234567890189", "GB29NWBK60161331926819"
BILLS = [
    {"sender": "Acme", "account": ACME, "total": "98.70"},
    {"sender": "Beta", "account": BETA, "total": "40.00"},
]


def read(
    output: object = BILLS, *, policy: Policy = POLICY, folder: str = "march", source: str = "list_bills"
) -> Scenario:
    return Scenario(policy, REQUEST).read(source, output, folder=folder)


def endorse(scene: Scenario, **arguments: object) -> Scenario:
    pattern = scene.call("pay", **arguments).pattern.value
    assert pattern is not None
    scene.ledger = scene.ledger.endorse(pattern.subject)
    return scene


def covers(
    scene: Scenario, tool: str = "pay", /, at: float = 0.0, sender: str = "", **arguments: object
) -> bool:
    call = Call(tool, leaves(arguments), scene.step + 1, at, sender=sender)
    return judge(scene.ledger, scene.policy, call).endorsed.value


FIRST, SECOND = {"to": ACME, "amount": "98.70"}, {"to": BETA, "amount": "40.00"}


def test_items_of_a_folder_that_the_request_named_are_endorsed_together() -> None:
    terms = read().call("pay", **FIRST, currency="EUR", note="March").pattern.value.terms
    assert terms.arguments == ("to", "amount")
    assert terms.fields == ("account", "total")
    assert [row.values for row in terms.rows] == [(ACME, "98.70"), (BETA, "40.00")]
    assert [tuple(one) for one in terms.fixed] == [("currency", "EUR")]
    assert terms.limit == "138.7"
    scene = endorse(read(), **FIRST, currency="EUR")
    assert covers(scene, **SECOND, currency="EUR", note="any other note")


@pytest.mark.parametrize(
    "cells", [("98.70 EUR", "40.00 EUR"), ("€ 98.70", "€40.00"), ("98,70 €", "40.00 EUR")]
)
@pytest.mark.parametrize("amount", ["98.70", 98.7])
def test_a_bare_amount_is_that_of_a_cell_with_a_currency(cells: tuple[str, str], amount: object) -> None:
    bills = [{**bill, "total": cell} for bill, cell in zip(BILLS, cells, strict=True)]
    table = "\n".join(f"{bill['account']};{bill['total']}" for bill in bills)
    for output in (bills, {"text": table}):
        scene = read(output)
        terms = scene.call("pay", to=ACME, amount=amount, currency="EUR").pattern.value.terms
        assert [row.values for row in terms.rows] == [(ACME, cells[0]), (BETA, cells[1])]
        assert terms.limit == "138.7"
        endorse(scene, to=ACME, amount=amount, currency="EUR")
        assert covers(scene, **SECOND, currency="EUR")
        assert not covers(scene, **SECOND, currency="USD")
        assert not covers(scene, to=BETA, amount="40.01", currency="EUR")


@pytest.mark.parametrize(
    "cell", ["40.00 USD", "1.234 EUR", "-40.00 EUR", "40.00 EUR or 9000 EUR", "4000 cents", "40.00"]
)
def test_a_row_with_another_currency_or_several_readings_is_not_listed(cell: str) -> None:
    bills = [{**BILLS[0], "total": "98.70 EUR"}, {**BILLS[1], "total": cell}]
    terms = read(bills).call("pay", to=ACME, amount="98.70", currency="EUR").pattern.value.terms
    assert [row.values for row in terms.rows] == [(ACME, "98.70 EUR")]


@pytest.mark.parametrize("cell", ["98.70 USD", "98.70 KWD", "9870 cents", "98.70 EUR or 9870 EUR"])
def test_a_cell_in_another_currency_or_unit_is_not_taken_for_the_amount(cell: str) -> None:
    pattern = (
        read([{**BILLS[0], "total": cell}]).call("pay", to=ACME, amount="98.70", currency="EUR").pattern.value
    )
    assert pattern is None or "total" not in pattern.terms.fields


def test_a_bill_whose_sum_was_changed_in_another_spelling_is_asked_about_again() -> None:
    bills = [{**bill, "total": f"{bill['total']} EUR"} for bill in BILLS]
    scene = endorse(read(bills), to=ACME, amount="98.70", currency="EUR")
    scene.read("list_bills", [{"sender": "Eve", "total": "40,00 €"}], folder="march")
    assert not covers(scene, **SECOND, currency="EUR")


def test_of_a_folder_that_the_request_did_not_name_one_item_is_endorsed() -> None:
    terms = read(folder="april").call("pay", **FIRST).pattern.value.terms
    assert [row.values for row in terms.rows] == [(ACME, "98.70")]


def test_a_file_that_was_added_to_the_folder_later_is_not_endorsed() -> None:
    later = {"sender": "Eve", "account": EVE, "total": "9000"}
    scene = endorse(read(), **FIRST).read("list_bills", [*BILLS, later], folder="march")
    assert covers(scene, **SECOND)
    assert not covers(scene, to=EVE, amount="9000")


@pytest.mark.parametrize(
    ("other", "more"),
    [
        ("pay", {"cc": EVE}),
        ("pay", {"to": EVE}),
        ("pay", {"amount": "98.70"}),
        ("pay", {"currency": "USD"}),
        ("pay", {"amount": "40.01"}),
        ("refund", {}),
    ],
    ids=[
        "another receiver",
        "another account",
        "amount of another row",
        "another fixed value",
        "a cent more",
        "another tool",
    ],
)
def test_another_call_than_the_question_listed_is_not_endorsed(other: str, more: dict[str, str]) -> None:
    scene = endorse(read(), **FIRST, currency="EUR")
    assert covers(scene, **SECOND, currency="EUR")
    assert not covers(scene, other, **{**SECOND, "currency": "EUR", **more})


@pytest.mark.parametrize(
    ("shown", "sent"), [("2026-03-01 10:00", "2026-03-01 23:00"), ("0040", "40"), ("1e2", "100")]
)
def test_a_choice_or_a_time_that_is_spelled_otherwise_is_not_endorsed(shown: str, sent: str) -> None:
    rows = [{"account": ACME, "file": "f-1"}, {"account": BETA, "file": shown}]
    plan = sink("plan", to=Role.DESTINATION, file=Role.SELECTOR)
    late = sink("late", to=Role.DESTINATION, file=Role.TIME)
    for name in ("plan", "late"):
        scene = read(rows, policy=replace(POLICY, sinks=(plan, late)))
        pattern = scene.call(name, to=BETA, file=shown).pattern.value
        assert pattern is not None
        scene.ledger = scene.ledger.endorse(pattern.subject)
        scene.ledger = replace(
            scene.ledger, endorsements=replace(scene.ledger.endorsements, counted=frozenset())
        )
        assert covers(scene, name, to=BETA, file=shown)
        assert not covers(scene, name, to=BETA, file=sent)


@pytest.mark.parametrize(("asked", "sent"), [(False, True), (5, 6)])
def test_a_flag_or_a_small_number_without_a_declaration_stays_as_it_was(asked: object, sent: object) -> None:
    scene = endorse(read(), **FIRST, public=asked)
    assert covers(scene, **SECOND, public=asked)
    assert not covers(scene, **SECOND, public=sent)
    assert not covers(scene, **SECOND)


@pytest.mark.parametrize(
    ("shown", "sent"),
    [("1,000", "1000"), ("1.000", "1000"), ("12,345", "12345"), ("40 EUR", "40 KWD"), ("40 EUR", "40")],
)
def test_an_amount_that_has_two_readings_or_a_unit_is_endorsed_as_written(shown: str, sent: str) -> None:
    scene = endorse(read([BILLS[0], {**BILLS[1], "total": shown}]), **FIRST)
    assert covers(scene, to=BETA, amount=shown)
    assert not covers(scene, to=BETA, amount=sent)


def test_a_link_with_another_fragment_is_not_endorsed() -> None:
    room = "https://chat.example/rooms#march"
    scene = endorse(read([BILLS[0], {**BILLS[1], "account": room}]), **FIRST)
    assert covers(scene, to=room, amount="40.00")
    assert not covers(scene, to="https://chat.example/rooms#evil", amount="40.00")


def test_an_undeclared_text_that_the_question_did_not_have_is_not_endorsed() -> None:
    scene = endorse(read(), **FIRST, text="for March of this year")
    assert covers(scene, **SECOND, text="for the windows of March")
    assert not covers(scene, **SECOND, text="for March", repeat="each month until further notice")


def test_another_agent_and_a_later_time_are_not_endorsed() -> None:
    scene = endorse(read(), **FIRST)
    assert covers(scene, at=24 * 3600 - 1, **SECOND)
    assert not covers(scene, at=24 * 3600, **SECOND)
    assert not covers(scene, sender="another", **SECOND)


def test_the_same_rows_of_another_source_are_not_endorsed() -> None:
    scene = endorse(read(), **FIRST)
    (known,) = scene.ledger.endorsements.known
    there = read(source="read_mail")
    there.ledger = replace(there.ledger, endorsements=Endorsements((known,)))
    assert not covers(there, **SECOND)


def test_a_changed_field_makes_a_row_another_document() -> None:
    scene = endorse(read(), **FIRST).read("list_bills", [{**BILLS[1], "sender": "Beta "}], folder="march")
    assert not covers(scene, **SECOND)


@pytest.mark.parametrize(
    "text",
    [
        f"payee;iban;total\nAcme;{ACME};98.70\nBeta;{BETA};40.00",
        f"| payee | iban | total |\n|---|---|---|\n| Acme | {ACME} | 98.70 |\n| Beta | {BETA} | 40.00 |",
        f"Acme,{ACME},98.70\nBeta,{BETA},40.00\nno bill",
        f"Acme\t{ACME}\t98.70\nBeta\t{BETA}\t40.00",
    ],
    ids=["semicolons", "bars", "commas", "tabs"],
)
def test_lines_of_a_table_are_rows(text: str) -> None:
    scene = endorse(read({"text": text}), **FIRST)
    assert [len(one.rows) for one in scene.ledger.endorsements.known] == [2]
    assert covers(scene, **SECOND)


def test_a_text_of_one_line_is_endorsed_for_its_call_alone() -> None:
    terms = read(f"Please pay 98.70 to {ACME} soon.").call("pay", **FIRST).pattern.value.terms
    assert [row.values for row in terms.rows] == [(ACME, "98.70")]
    assert [one.text for one in terms.records] == [f"Please pay 98.70 to {ACME} soon."]


def test_an_amount_that_cannot_be_read_is_not_endorsed() -> None:
    bills = [{"account": ACME, "total": "a lot"}, {"account": BETA, "total": "-40.00"}]
    for bill in bills:
        pattern = read(bills).call("pay", to=bill["account"], amount=bill["total"]).pattern.value
        assert pattern is None


def test_a_receiver_on_the_deny_list_is_not_endorsed() -> None:
    assert read(policy=replace(POLICY, deny=(ACME,))).call("pay", **FIRST).pattern.value is None
    scene = endorse(read(), **FIRST)
    scene.policy = replace(POLICY, deny=(BETA,))
    assert not covers(scene, **SECOND)


def test_untrusted_content_is_asked_about_as_always() -> None:
    scene = endorse(read(), **FIRST)
    scene.policy = replace(POLICY, effects=((Rule.CONTENT, Effect.ASK),))
    scene.read("read_page", "The vault stands open behind the old mill.")
    assert covers(scene, **SECOND)
    assert not covers(scene, **SECOND, note="The vault stands open behind the old mill.")


def test_endorsements_survive_being_written() -> None:
    scene = endorse(read(), **FIRST)
    ledger = Ledger.load(json.loads(json.dumps(scene.ledger.dump())))
    assert ledger.endorsements == scene.ledger.endorsements
    revoked = ledger.endorsements.revoke(ledger.endorsements.known[0].id)
    assert not revoked.known
    assert revoked.counted


def test_the_library_asks_once() -> None:
    asked: list[str] = []

    def answer(violation: object, explanation: str) -> str:
        asked.append(explanation)
        return ALWAYS

    engine = Engine(POLICY, confirm_callback=answer)
    engine.set_query(REQUEST)
    engine.on_tool_result("list_bills", BILLS, arguments={"folder": "march"})
    engine.on_tool_call("pay", FIRST)
    engine.on_tool_call("pay", SECOND)
    assert len(asked) == 1
    assert f'row 2, once: to "{BETA}", amount "40.00"' in asked[0]
    engine.confirm_callback = lambda violation, explanation: False
    with pytest.raises(TaintViolationError):
        engine.on_tool_call("pay", SECOND)


ACCOUNTS = st.sampled_from([ACME, BETA, EVE])
AMOUNTS = st.sampled_from(["98.70", "98.7", "40.00", "40", "9000"])
ITEMS = st.lists(st.fixed_dictionaries({"a": ACCOUNTS, "b": AMOUNTS, "c": ACCOUNTS}), min_size=1, max_size=4)
NUMBERS = st.integers(0, 3)
CHOICES = st.lists(st.tuples(NUMBERS, NUMBERS, st.sampled_from(["a", "a", "a", "c"])), min_size=1, max_size=6)
MORE = st.fixed_dictionaries(
    {}, optional={"cc": ACCOUNTS, "currency": st.sampled_from(["EUR", "USD"]), "note": AMOUNTS}
)


def choose(items: list[dict[str, str]], choice: tuple[int, int, str]) -> dict[str, str]:
    """Return a payment with the account of one item and the amount of one, often the same."""
    account, amount, field = choice
    return {"to": items[account % len(items)][field], "amount": items[amount % len(items)]["b"]}


def spell(values: dict[str, str]) -> frozenset[tuple[str, str]]:
    """Return arguments with consequences in one spelling."""
    spelling = {"98.7": "98.70", "40": "40.00"}
    return frozenset((name, spelling.get(one, one)) for name, one in values.items() if one and name != "note")


@settings(max_examples=examples(60))
@given(ITEMS, MORE, CHOICES, MORE, st.booleans())
def test_an_endorsement_never_allows_a_pair_that_was_not_in_the_question(
    items, fixed, choices, more, table
) -> None:
    text = "\n".join(";".join(one.values()) for one in items)
    scene = read({"text": text} if table else items)
    call = {**choose(items, (0, 0, "a")), **fixed}
    pattern = scene.call("pay", **call).pattern.value
    if pattern is None:
        return
    terms = pattern.terms
    same = {one.argument: one.value for one in terms.fixed}
    listed = [spell({**same, **dict(zip(terms.arguments, row.values, strict=True))}) for row in terms.rows]
    scene.ledger = scene.ledger.endorse(pattern.subject)
    passed = [spell(call)]
    for number, choice in enumerate(choices):
        other = {**choose(items, choice), **(more if number % 2 else fixed)}
        verdict = judge(scene.ledger, POLICY, Call("pay", leaves(other), scene.step + 1))
        assert verdict.endorsed.value is (spell(other) in listed and spell(other) not in passed)
        if verdict.endorsed.value:
            passed.append(spell(other))
            scene.ledger = scene.ledger.count_row(verdict.row.value)
    assert sum(float(dict(one)["amount"]) for one in passed) <= float(terms.limit) + 1e-9


@settings(max_examples=examples(40))
@given(ITEMS, CHOICES, MORE)
def test_an_endorsement_changes_no_finding(items, choices, more) -> None:
    scene = read(items)
    pattern = scene.call("pay", **choose(items, (0, 0, "a"))).pattern.value
    if pattern is None:
        return
    endorsed = scene.ledger.endorse(pattern.subject)
    call = Call("pay", leaves({**choose(items, choices[0]), **more}), 9)
    before, after = (judge(each, POLICY, call) for each in (scene.ledger, endorsed))
    assert (before.decision, before.findings) == (after.decision, after.findings)


@pytest.mark.parametrize(
    ("after", "limit", "before"),
    [(0.0, None, "used"), (0.0, 100, "exceeded"), (25 * 3600.0, 100, "ended")],
)
def test_a_question_after_an_endorsement_says_why_it_is_asked(
    after: float, limit: int | None, before: str
) -> None:
    policy = POLICY if limit is None else replace(POLICY, endorse_limit=float(limit))
    scene = endorse(read(policy=policy), **FIRST)
    values = FIRST if limit is None else SECOND
    call = Call("pay", leaves(dict(values)), scene.step + 1, after)
    pattern = judge(scene.ledger, scene.policy, call).pattern.value
    assert pattern is not None
    assert pattern.terms.before == before
    assert read().call("pay", **FIRST).pattern.value.terms.before == ""
