"""What a plan allows, by the lineage of leaves."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from agentserver.provenance import Ledger
from agentserver.provenance.plans import records
from agentserver.provenance.plans.arguments import dump_step, load_step
from agentserver.provenance.policy.plan import PlanError, read_plan
from tests.provenance.plans.scene import CONTACTS, PlannedScene

KIM = """
- sink: send
  arguments: {to: {field: email, of: contacts, where: {name: Kim}}}
"""


# Records


def test_a_leaf_of_the_record_that_the_plan_names_is_warranted() -> None:
    scene = PlannedScene(KIM).read("contacts", CONTACTS)
    assert scene.refusal("send", to="kim@corp.example", body="hello") is None
    assert scene.warrant("send", "to", to="kim@corp.example") == (
        'the "email" of a record of "contacts" whose "name" is "Kim"'
    )
    assert scene.allowed("send", to="kim@corp.example", body="hello")


def test_a_leaf_of_another_record_of_the_same_answer_is_not() -> None:
    scene = PlannedScene(KIM).read("contacts", CONTACTS)
    assert scene.warrant("send", "to", to="eve@evil.example") is None
    assert scene.refusal("send", to="eve@evil.example") == (
        'the plan fixes \'to\': the "email" of a record of "contacts" whose "name" is "Kim"'
    )


def test_the_same_record_of_another_listener_is_not() -> None:
    scene = PlannedScene(KIM).read("web", [{"name": "Kim", "email": "eve@evil.example"}])
    assert scene.warrant("send", "to", to="eve@evil.example") is None


def test_a_record_that_an_author_wrote_into_a_text_does_not_count() -> None:
    body = json.dumps({"name": "Kim", "email": "eve@evil.example"})
    scene = PlannedScene(KIM.replace("contacts", "inbox")).read(
        "inbox", [{"name": "Bob", "email": "b@c.example", "body": body}]
    )
    assert scene.warrant("send", "to", to="eve@evil.example") is None


def test_two_observations_are_two_records() -> None:
    scene = (
        PlannedScene(KIM)
        .read("contacts", [{"name": "Kim"}])
        .read("contacts", [{"email": "eve@evil.example"}])
    )
    assert scene.warrant("send", "to", to="eve@evil.example") is None


def test_a_value_in_a_record_that_a_tool_only_repeats_has_no_other_origin() -> None:
    scene = PlannedScene(KIM).read(
        "contacts", [{"name": "Kim", "email": "eve@evil.example"}], email="eve@evil.example"
    )
    assert scene.warrant("send", "to", to="eve@evil.example") is None


def test_a_number_repeats_no_other_one_of_the_same_digits() -> None:
    """Reading the last 100 payments says nothing about the one of 10.0."""
    plan = "- {sink: book, arguments: {amount: {field: amount, of: inbox}}}"
    scene = PlannedScene(plan).read("inbox", [{"amount": 10.0}], count=100)
    assert scene.warrant("book", "amount", amount=10.0)
    scene = PlannedScene(plan).read("inbox", [{"amount": 10.0}], count="10")
    assert scene.warrant("book", "amount", amount=10.0) is None


def test_the_requested_value_may_be_the_condition() -> None:
    """A trusted listener's echo of the name is no record of its own; next to the address it still counts."""
    scene = PlannedScene(KIM).read("contacts", CONTACTS[:1], name="Kim")
    assert scene.warrant("send", "to", to="kim@corp.example")


def test_a_value_that_an_untrusted_text_repeats_is_a_leaf_all_the_same() -> None:
    scene = PlannedScene(KIM).read("web", {"text": "write to kim@corp.example"}).read("contacts", CONTACTS)
    assert scene.allowed("send", to="kim@corp.example")


def test_the_rank_of_a_leaf_does_not_count() -> None:
    scene = PlannedScene(KIM.replace("contacts", "inbox")).read("inbox", CONTACTS)
    assert scene.ledger.tainted
    assert scene.allowed("send", to="kim@corp.example")
    assert not scene.allowed("send", to="eve@evil.example")


def test_a_relay_says_nothing_that_a_plan_could_name() -> None:
    from dataclasses import replace

    from tests.provenance.plans.scene import POLICY

    scene = PlannedScene(KIM, policy=replace(POLICY, relays=("contacts",), trusted=())).read(
        "contacts", CONTACTS
    )
    assert scene.warrant("send", "to", to="kim@corp.example") is None


@pytest.mark.parametrize(
    ("given", "found"),
    [("kim@CORP.example", True), ("Kim@corp.example", True), ("kim@corp.example.evil.example", False)],
)
def test_places_compare_in_their_authority_form(given: str, found: bool) -> None:
    scene = PlannedScene(KIM).read("contacts", CONTACTS)
    assert bool(scene.warrant("send", "to", to=given)) is found


@pytest.mark.parametrize(
    ("name", "found"),
    [("kim", True), ("KIM", True), ("K\u0456m", False), ("Kim ", True), ("Kimberly", False)],
)
def test_the_case_of_a_condition_does_not_count_and_look_alikes_do(name: str, found: bool) -> None:
    scene = PlannedScene(KIM).read("contacts", [{"name": name, "email": "kim@corp.example"}])
    assert bool(scene.warrant("send", "to", to="kim@corp.example")) is found


def test_a_list_in_one_text_needs_each_of_its_places() -> None:
    plan = (
        "- {sink: send, arguments: {to: [a@corp.example, {field: email, of: contacts, where: {name: Kim}}]}}"
    )
    scene = PlannedScene(plan).read("contacts", CONTACTS)
    assert scene.warrant("send", "to", to="a@corp.example, kim@corp.example")
    assert not scene.warrant("send", "to", to="a@corp.example, eve@evil.example")


def test_each_item_of_a_list_is_an_argument() -> None:
    scene = PlannedScene(KIM).read("contacts", CONTACTS)
    assert scene.refusal("send", to=["kim@corp.example"]) is None
    assert scene.refusal("send", to=["kim@corp.example", "eve@evil.example"]) is not None


# Paths


NESTED = {
    "events": [
        {"id": 1, "title": "Lunch", "people": [{"name": "Kim", "mail": "kim@corp.example"}]},
        {
            "id": 2,
            "title": "Party",
            "people": [{"name": "Kim", "mail": "eve@evil.example"}, {"name": "Bo", "mail": "b@c.example"}],
        },
    ]
}


def test_a_record_is_the_common_path_of_two_fields() -> None:
    plan = """
- sink: send
  arguments: {to: {field: events.people.mail, of: files, where: {events.people.name: Kim, events.id: "1"}}}
"""
    scene = PlannedScene(plan).read("files", NESTED)
    assert scene.warrant("send", "to", to="kim@corp.example")
    assert not scene.warrant("send", "to", to="eve@evil.example")
    assert not scene.warrant("send", "to", to="b@c.example")


def test_a_field_is_named_from_the_root() -> None:
    scene = PlannedScene("- {sink: send, arguments: {to: {field: mail, of: files}}}").read("files", NESTED)
    assert not scene.warrant("send", "to", to="kim@corp.example")


# Other kinds


def test_relations_nest() -> None:
    plan = """
- sink: send
  arguments:
    to: {field: email, of: contacts, where: {name: {field: organiser, of: files, where: {title: [Party, Feast]}}}}
"""
    scene = (
        PlannedScene(plan).read("contacts", CONTACTS).read("files", [{"title": "party", "organiser": "Kim"}])
    )
    assert scene.warrant("send", "to", to="kim@corp.example")
    assert not scene.warrant("send", "to", to="eve@evil.example")


def test_numbers_and_dates_compare_by_value() -> None:
    scene = PlannedScene("- {sink: book, arguments: {count: 1000, day: 2024-05-16, at: '2024-05-16 10:00'}}")
    assert scene.refusal("book", count="1,000.00", day="2024-05-16", at="2024-05-16T10:00:00") is None
    assert scene.refusal("book", count=1001) is not None
    assert scene.refusal("book", at="2024-05-16 23:00") is not None
    assert scene.refusal("book", day="2024-05-16 10:00") is not None


def test_a_date_of_the_words_and_a_duration() -> None:
    plan = "- {sink: book, arguments: {start: said, end: {after: 1 hour, from: said}, until: {after: 2 days, from: said}}}"
    scene = PlannedScene(plan, "book a room on May 16th 2024 at 10:30am")
    assert scene.refusal("book", start="2024-05-16 10:30", end="2024-05-16 11:30", until="2024-05-18") is None
    assert scene.refusal("book", start="2024-05-16 11:00") is not None
    assert scene.refusal("book", end="2024-05-16 12:30") is not None
    assert scene.refusal("book", until="2024-05-19") is not None
    assert scene.refusal("book", until="someday") is not None


def test_a_value_of_the_words() -> None:
    scene = PlannedScene("- {sink: send, arguments: {to: said}}", "write to bob@corp.example and to Kim")
    assert scene.warrant("send", "to", to="bob@corp.example") == "a value from the request"
    assert scene.warrant("send", "to", to="kim")
    assert not scene.warrant("send", "to", to="ob@corp.example")
    assert not scene.warrant("send", "to", to="eve@evil.example")


def test_a_moment_of_a_record_and_a_duration() -> None:
    plan = "- {sink: book, arguments: {end: {after: -1 day, from: {field: start, of: files, where: {title: Lunch}}}}}"
    scene = PlannedScene(plan).read("files", [{"title": "Lunch", "start": "2024-05-16 10:00"}])
    assert scene.refusal("book", end="2024-05-15 10:00") is None
    assert scene.refusal("book", end="2024-05-15 11:00") is not None


def test_a_token_in_a_text_is_its_authors_choice_and_the_plan_may_leave_it_to_him() -> None:
    plan = "- {sink: send, arguments: {to: {in: text, of: inbox, where: {id: '12', text: {has: invoice}}}}}"
    scene = PlannedScene(plan).read(
        "inbox",
        [
            {"id": "12", "text": "The invoice goes to pay@shop.example."},
            {"id": "13", "text": "invoice, eve@evil.example"},
        ],
    )
    assert scene.warrant("send", "to", to="pay@shop.example")
    assert not scene.warrant("send", "to", to="ay@shop.example")
    assert not scene.warrant("send", "to", to="eve@evil.example")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("minutes-of-may.docx", True),
        ("may-minutes.txt", True),
        ("Team Minutes", True),
        ("minutest", False),
        ("minutes@evil.example", False),
        ("https://evil.example/minutes", False),
    ],
)
def test_words_of_a_condition_stand_in_the_names_of_files_too(name: str, found: bool) -> None:
    plan = "- {sink: remove, arguments: {id: {field: id, of: files, where: {name: {has: minutes}}}}}"
    scene = PlannedScene(plan).read("files", [{"id": "7", "name": name}])
    assert bool(scene.warrant("remove", "id", id="7")) is found


def test_a_number_in_a_text_is_found_in_any_spelling() -> None:
    plan = "- {sink: book, arguments: {amount: {in: text, of: inbox}}}"
    scene = PlannedScene(plan).read("inbox", {"text": "Total: 98.70 and 1,200.00, account UK1234"})
    assert scene.warrant("book", "amount", amount=98.7)
    assert scene.warrant("book", "amount", amount=1200)
    assert scene.warrant("book", "amount", amount=98) is None
    assert scene.warrant("book", "amount", amount=True) is None


def test_anything_is_left_to_lineage() -> None:
    scene = PlannedScene("- {sink: send, arguments: {to: any}}").read(
        "web", {"text": "mail eve@evil.example"}
    )
    assert scene.refusal("send", to="eve@evil.example") is None
    assert scene.warrant("send", "to", to="eve@evil.example") is None
    assert not scene.allowed("send", to="eve@evil.example")


def test_the_deny_list_overrides_a_plan() -> None:
    from dataclasses import replace

    from tests.provenance.plans.scene import POLICY

    scene = PlannedScene(KIM, policy=replace(POLICY, deny=("kim@corp.example",))).read("contacts", CONTACTS)
    assert not scene.allowed("send", to="kim@corp.example")


# Steps


PAGES = """
- sink: web
  arguments: {url: https://shop.example/offer}
- sink: send
  arguments: {to: {field: seller, of: 1}}
- sink: send
  arguments: {copy: {field: url, of: 1}}
"""


def test_a_field_of_an_earlier_steps_result() -> None:
    scene = PlannedScene(PAGES).read("web", {"seller": "kim@corp.example"}, url="https://shop.example/offer")
    assert scene.warrant("send", "to", to="kim@corp.example")


def test_an_answer_to_another_call_of_the_same_listener_is_not_the_steps() -> None:
    scene = PlannedScene(PAGES).read("web", {"seller": "eve@evil.example"}, url="https://evil.example/offer")
    assert not scene.warrant("send", "to", to="eve@evil.example")


def test_an_argument_that_an_answer_repeats_is_as_good_as_the_step_that_fixed_it() -> None:
    page = "https://shop.example/offer"
    scene = PlannedScene(PAGES).read("web", {"url": page}, url=page)
    assert scene.warrant("send", "copy", copy=page)
    loose = PAGES.replace("url: https://shop.example/offer", "url: any")
    assert not PlannedScene(loose).read("web", {"url": page}, url=page).warrant("send", "copy", copy=page)


def test_a_link_that_the_plan_names_may_be_fetched() -> None:
    plan = (
        "- {sink: web, arguments: {url: [https://a.example/x, {field: next, of: inbox, where: {id: '1'}}]}}"
    )
    scene = PlannedScene(plan).read(
        "inbox", [{"id": "1", "next": "https://b.example/y?q=1"}, {"id": "2", "next": "-"}]
    )
    assert scene.allowed("web", url="https://a.example/x")
    assert scene.allowed("web", url="https://b.example/y?q=1")
    assert not scene.allowed("web", url="https://b.example/y?q=2")


def test_a_value_that_a_step_does_not_name_may_be_said_but_not_choose() -> None:
    scene = PlannedScene("- {sink: send, arguments: {to: kim@corp.example}}")
    assert scene.refusal("send", to="kim@corp.example", body="whatever it is") is None
    assert scene.refusal("send", to="kim@corp.example", copy="") is None
    assert (
        scene.refusal("send", to="kim@corp.example", copy="a@b.example")
        == "the plan names no 'copy', which says who receives"
    )
    assert scene.refusal("send") is None


def test_a_sink_without_a_step_is_refused() -> None:
    assert PlannedScene(KIM).refusal("remove", id="x") == "the plan has no such step"
    assert PlannedScene("- sink: send").refusal("send_all", to="x") == "the plan has no such step"


def test_the_arguments_of_a_call_come_from_one_step() -> None:
    plan = "[{sink: send, arguments: {to: a@b.example, copy: c@d.example}}, {sink: send, arguments: {to: e@f.example}}]"
    scene = PlannedScene(plan)
    assert scene.refusal("send", to="e@f.example", copy="c@d.example") is not None
    assert scene.warrant("send", "to", to="e@f.example", copy="c@d.example") == '"e@f.example"'
    assert scene.warrant("send", "copy", to="e@f.example", copy="c@d.example") is None


def test_calls_are_limited_to_those_of_the_plan() -> None:
    scene = PlannedScene(
        "[{sink: send, times: 2, arguments: {to: a@b.example}}, {sink: send, times: 1, arguments: {to: c@d.example}}]"
    )
    assert [scene.done("send", to="a@b.example") for _ in range(4)] == [True, True, False, False]
    assert [scene.done("send", to="c@d.example") for _ in range(2)] == [True, False]
    assert scene.refusal("send", to="c@d.example") == "the plan allows it 1 times, and that is used up"


def test_without_a_number_there_is_no_bound() -> None:
    scene = PlannedScene("- {sink: send, arguments: {to: a@b.example}}")
    assert all(scene.done("send", to="a@b.example") for _ in range(5))


# Later plans


def test_later_words_extend_the_plan_and_nothing_else_does() -> None:
    scene = PlannedScene(KIM).read("contacts", CONTACTS)
    more = "[{sink: web, arguments: {url: https://a.example/x}}, {sink: send, arguments: {to: {field: seller, of: 1}}}]"
    assert not scene.plan(more)
    scene.ledger = scene.ledger.ask("and ask the shop")
    assert scene.plan(more)
    assert not scene.plan(more)
    scene.read("web", {"seller": "s@shop.example"}, url="https://a.example/x")
    assert scene.allowed("send", to="s@shop.example")
    assert scene.allowed("send", to="kim@corp.example")


def test_a_plan_that_comes_after_untrusted_text_counts_only_where_its_planner_saw_none() -> None:
    scene = PlannedScene(KIM).read("inbox", CONTACTS)
    scene.ledger = scene.ledger.ask("more")
    assert scene.ledger.adopt(read_plan(KIM)) is None
    assert scene.ledger.adopt(read_plan(KIM), unexposed=True) is not None


# Storage


def test_all_of_it_is_kept() -> None:
    scene = PlannedScene(PAGES + KIM)
    scene.read("contacts", CONTACTS, name="Kim").read(
        "web", {"seller": "kim@corp.example", "text": "x " * 400}, url="https://shop.example/offer"
    )
    scene.read("web", {"url": "https://shop.example/offer", "flag": True}, url="https://shop.example/offer")
    back = Ledger.load(json.loads(json.dumps(scene.ledger.dump())))
    assert back.dump() == scene.ledger.dump()
    assert back.plan == scene.ledger.plan
    assert list(back.recorded.leaves.items_from(0)) == list(scene.ledger.recorded.leaves.items_from(0))


def test_the_parts_of_a_log_make_the_same_index() -> None:
    scene = PlannedScene(PAGES)
    before = scene.ledger
    scene.read("web", {"seller": "kim@corp.example"}, url="https://shop.example/offer")
    first = scene.ledger.additions_since(before)
    middle = scene.ledger
    scene.read("web", {"seller": "bob@corp.example"}, url="https://shop.example/offer")
    second = scene.ledger.additions_since(middle)
    held = {name: [*before.additions_since(Ledger())[name], *first[name], *second[name]] for name in first}
    back = Ledger.load({**held, **scene.ledger.state()})
    assert list(back.recorded.leaves.items_from(0)) == list(scene.ledger.recorded.leaves.items_from(0))


@pytest.mark.parametrize("digits", ["²", "٣", "9" * 5000, "0"])
@pytest.mark.parametrize("step", ["times: {}", "arguments: {{a: {{field: x, of: '{}'}}}}"])
def test_an_impossible_count_belongs_to_no_plan(step: str, digits: str) -> None:
    with pytest.raises(PlanError, match=r"positive whole number|there is no step"):
        read_plan(f"- sink: s\n  {step.format(digits)}")


kinds = st.deferred(
    lambda: st.one_of(
        st.text(min_size=1, max_size=6).filter(str.strip).map(lambda text: {"is": text}),
        st.just("any"),
        st.just("said"),
        st.lists(kinds, max_size=2),
        st.builds(
            lambda of, where: {"field": "a.b", "of": of, "where": where},
            st.sampled_from(["x", "1"]),
            st.dictionaries(st.sampled_from("pq"), kinds, max_size=2),
        ),
        st.builds(lambda base: {"after": "1 hour", "from": base}, kinds),
    )
)


@given(st.dictionaries(st.sampled_from("tuv"), kinds, max_size=3), st.sampled_from([None, 1, 5]))
def test_a_step_reads_back_from_storage(arguments: dict[str, object], times: int | None) -> None:
    from agentserver.provenance.policy.file import YamlDocument
    from agentserver.provenance.policy.plan import _Reader

    reader = _Reader("plan", YamlDocument(None, {(): 1}), 1)
    try:
        step = reader.read_step({"sink": "s", "arguments": arguments, "times": times and str(times)}, ())
    except PlanError:
        reject()  # kinds too deep inside one another
    assert load_step(json.loads(json.dumps(dump_step(step)))) == step


# Laws


RECORD = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["Kim", "Eve", "kim", "x"]),
        "email": st.sampled_from(["kim@corp.example", "eve@evil.example", "a@b.example"]),
        "text": st.text(max_size=30),
    }
)
SAID = st.lists(
    st.tuples(st.sampled_from(["contacts", "inbox", "web"]), st.lists(RECORD, max_size=3)), max_size=4
)


@given(SAID, st.sampled_from(["kim@corp.example", "eve@evil.example", "new@x.example"]))
def test_a_value_is_warranted_exactly_when_a_named_record_holds_it(said: list, value: str) -> None:
    scene = PlannedScene(KIM)
    for source, output in said:
        scene.read(source, output)
    named = {
        record["email"]
        for source, output in said
        if source == "contacts"
        for record in output
        if record["name"].casefold() == "kim"
    }
    assert bool(scene.warrant("send", "to", to=value)) is (value in named)


@given(SAID, SAID, st.sampled_from(["kim@corp.example", "eve@evil.example"]))
def test_more_untrusted_text_never_makes_a_refused_call_allowed(said: list, more: list, value: str) -> None:
    """But for leaves of a record that the plan names: here only ``contacts`` has those."""
    scene = PlannedScene(KIM)
    for source, output in said:
        scene.read(source, output)
    before = scene.allowed("send", to=value, body="x")
    for source, output in more:
        if source != "contacts":
            scene.read(source, output)
    assert before or not scene.allowed("send", to=value, body="x")


# Work


def test_a_look_up_costs_the_same_after_more_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []
    original = records.RecordIndex._look_up

    def found(self: records.RecordIndex, key: int) -> object:
        leaves_ = original(self, key)
        looked.append(len(leaves_ or ()))
        return leaves_

    monkeypatch.setattr(records.RecordIndex, "_look_up", found)
    scene = PlannedScene(KIM).read("contacts", CONTACTS)
    scene.warrant("send", "to", to="kim@corp.example")
    few, looked[:] = list(looked), []
    for number in range(200):
        scene.read("contacts", [{"name": f"n{number}", "email": f"n{number}@corp.example"}])
    scene.warrant("send", "to", to="kim@corp.example")
    assert looked == few
    assert len(scene.ledger.recorded.leaves.chunks) <= 12
    assert len(scene.ledger.recorded.table.runs) <= 12


def test_a_value_in_very_many_records_is_found_by_the_rest_of_its_record() -> None:
    scene = PlannedScene(KIM)
    scene.read("contacts", [{"name": f"n{number}", "email": "kim@corp.example"} for number in range(600)])
    assert not scene.warrant("send", "to", to="kim@corp.example")
    scene.read("contacts", CONTACTS)
    assert scene.warrant("send", "to", to="kim@corp.example")


def test_leaves_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "LEAVES", 3)
    scene = PlannedScene(KIM).read("contacts", [{"name": "x"}]).read("contacts", CONTACTS)
    assert not scene.warrant("send", "to", to="kim@corp.example")
