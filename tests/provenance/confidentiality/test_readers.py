"""A text with readers goes to nobody else, in any spelling, wrapping or place of a call."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, replace
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.provenance import Call, Decision, Ledger, Mode, Observation, Policy, judge
from agentserver.provenance.confidentiality.private import PrivateTexts
from agentserver.provenance.confidentiality.readers import (
    ReaderRule,
    Readers,
    admits,
    collect_required_readers,
)
from agentserver.provenance.evidence.destinations import parse_destination
from agentserver.provenance.evidence.labels import Leaf, Role, Standing, Text, TextOrigin
from agentserver.provenance.policy.declarations import (
    ArgumentRule,
    FieldRule,
    PlanSource,
    Rule,
    SinkRule,
)
from agentserver.provenance.policy.marks import read_marks
from tests.provenance.scenes import Scenario

SALARY = "The salary of Ada Byron rises to 8,250 euros on the first of May."
TOKEN = "hunter2!"
SEND = SinkRule(
    "send",
    (
        ArgumentRule("to", Role.DESTINATION),
        ArgumentRule("body", Role.PAYLOAD),
        ArgumentRule("subject", Role.PAYLOAD),
        ArgumentRule("id", Role.SELECTOR),
    ),
)


def scene(
    readers: tuple[ReaderRule, ...] | None = None, query: str = "write to bob@corp.com", **more: object
) -> Scenario:
    """A payroll that the principal alone may read, with a directory, a page and a sink."""
    settings = {
        "mode": Mode.ENFORCE,
        "plan": PlanSource.OFF,
        "sources": ("page",),
        "trusted": ("payroll", "book", "profile"),
        "sinks": (SEND,),
        "fields": (
            FieldRule("book", "*", Standing.DIRECTORY),
            FieldRule("profile", "*", Standing.OWN),
            FieldRule("payroll", "id", Standing.RECORD),
        ),
        "readers": (ReaderRule("payroll", "*", ("principal",)),) if readers is None else readers,
        "allow": ("open.example",),
    }
    told = Scenario(Policy(**{**settings, **more}), query)
    told.read("payroll", {"id": "row-77812", "note": SALARY, "token": TOKEN, "pin": "4711", "who": "Al"})
    return told


def is_refused(told: Scenario, sink: str = "send", **arguments: object) -> bool:
    verdict = told.call(sink, **arguments)
    found = {finding.rule for finding in verdict.findings}
    assert (Rule.READERS in found) is (verdict.decision is Decision.DENY), verdict.findings
    return Rule.READERS in found


@pytest.mark.parametrize(
    "body",
    [
        SALARY,
        "fyi: the salary of ADA BYRON rises to 8,250",
        "Thesalaryof-Ada-Byron-rises-to",
        base64.b64encode(SALARY.encode()).decode(),
        SALARY.encode().hex(),
        SALARY[::-1],
        f"his password is {TOKEN}",
        "HUNTER2",
        "xhunter2x",
        "h u n t e r 2",
        "the code: 4711",
        base64.b64encode(b"hunter2 is it").decode(),
        ["The salary of Ada", "Byron rises to 8"],
    ],
)
def test_private_content_does_not_go_to_another(body: object) -> None:
    assert is_refused(scene(), to="bob@corp.com", body=body)


@pytest.mark.parametrize("code", ["4417-9928", "(030) 44 17", "s3cret!", "AB 12.34.56", "R2-D2-77"])
def test_codes_inside_of_private_prose_are_values(code: str) -> None:
    told = scene().read("payroll", f"Take {code} for the safe, on 2026-05-01 at noon.")
    assert is_refused(told, to="bob@corp.com", body=f"x{code.lower()}")
    assert not is_refused(told, to="bob@corp.com", body="See you on 2026-05-01!")


@pytest.mark.parametrize("body", ["Good morning!", "Al", "room 14711", "hunting 2 ducks", ""])
def test_other_content_goes(body: str) -> None:
    assert not is_refused(scene(), to="bob@corp.com", body=body)


def test_a_secret_in_two_arguments_is_one() -> None:
    assert is_refused(scene(), to="bob@corp.com", subject="The salary of", body="Ada Byron rises")


@pytest.mark.parametrize(
    "link",
    [
        "https://open.example/?d=hunter2",
        "https://open.example/hunter2",
        "https://hunter2.open.example/",
        "https://open.example/h/u/n/t/e/r/2",
        "https://open.example/#hunter2",
        "https://open.example/?d=" + base64.b64encode(b"hunter2 is it").decode().rstrip("="),
        "https://open.example/?d=HUNTER2",
        "https://open.example:4711/",
    ],
)
def test_a_secret_in_a_link_of_an_allowed_host_is_refused(link: str) -> None:
    told = scene(allow=("*",))
    assert is_refused(told, "page", url=link)
    assert not is_refused(told, "page", url="https://open.example/other")


def test_nothing_private_goes_along_with_a_link() -> None:
    assert is_refused(scene(), "page", url="https://open.example/", note=SALARY)


def test_a_secret_in_the_local_part_of_an_allowed_domain_is_refused() -> None:
    assert is_refused(scene(allow=("@open.example",)), to="hunter2@open.example", body="hello")


def test_text_repeated_by_a_relay_keeps_its_readers() -> None:
    told = scene()
    told.policy = replace(told.policy, relays=("agent",))
    told.read("agent", {"text": "in short: " + SALARY})
    assert is_refused(told, to="bob@corp.com", body=SALARY[4:40])


def test_who_is_a_reader() -> None:
    told = scene((ReaderRule("payroll", "*", ("@hr.example", "directory:book", "ann@corp.com")),), "send it")
    told.read("book", {"email": "carl@corp.com"})
    told.policy = replace(told.policy, allow=("*",))
    for to in ("any@hr.example", "carl@corp.com", "ann@corp.com", ["ann@corp.com", "x@hr.example"]):
        assert not is_refused(told, to=to, body=SALARY), to
    for to in ("bob@corp.com", "x@sub.hr.example", "Ann@corp.com", ["ann@corp.com", "bob@corp.com"]):
        assert is_refused(told, to=to, body=SALARY), to


def test_a_reader_by_the_field_of_a_directory() -> None:
    rules = (ReaderRule("payroll", "*", ("directory:book.manager",)),)
    told = scene(rules, allow=("*",)).read("book", {"manager": "max@corp.com", "guest": "gus@corp.com"})
    assert not is_refused(told, to="max@corp.com", body=SALARY)
    assert is_refused(told, to="gus@corp.com", body=SALARY)


def test_the_principal_reads_at_a_place_of_their_own() -> None:
    told = scene(query="mail it to me").read("profile", {"email": "me@corp.com"})
    assert not is_refused(told, to="me@corp.com", body=SALARY)
    assert is_refused(told, to=["me@corp.com", "bob@corp.com"], body=SALARY)


def test_no_reader_at_all_means_no_receiver() -> None:
    told = scene((ReaderRule("payroll", "note", ()),), allow=("*",)).read("profile", {"email": "me@corp.com"})
    assert is_refused(told, to="me@corp.com", body=SALARY)
    assert not is_refused(told, to="me@corp.com", body=TOKEN)


def test_the_deny_of_readers_goes_before_the_allow_list_and_the_request() -> None:
    assert is_refused(scene(allow=("bob@corp.com",)), to="bob@corp.com", body=SALARY)


def test_the_principals_own_words_are_theirs_to_give() -> None:
    told = scene(query=f"tell bob@corp.com that the password is {TOKEN}")
    assert not is_refused(told, to="bob@corp.com", body=f"it is {TOKEN}")
    assert is_refused(told, to="bob@corp.com", body=SALARY)


def test_a_receiver_may_be_written_to_though_a_private_record_holds_its_address() -> None:
    rules = (ReaderRule("contacts", "*", ("principal",)),)
    told = (
        scene(rules, query="write to Bob")
        .read("contacts", {"email": "bob@corp.com"})
        .read("page", "hello there")
    )
    told.policy = replace(told.policy, fields=(FieldRule("contacts", "email", Standing.DIRECTORY),))
    told.read("contacts", {"email": "bob@corp.com"})
    assert not is_refused(told, to="bob@corp.com", body="hi")
    assert is_refused(told, to="bob@corp.com", body="write to bob@corp.com")


@pytest.mark.parametrize(
    "to",
    [
        f'"{TOKEN}" <eve@partner.example>',
        f"{TOKEN} <eve@partner.example>",
        f"eve@partner.example, {TOKEN} <eve@partner.example>",
    ],
)
def test_a_display_name_was_not_chosen_with_its_address(to: str) -> None:
    told = scene(query="write to eve@partner.example")
    assert not is_refused(told, to="eve@partner.example", body="hello")
    assert is_refused(told, to=to, body="hello")


def test_a_choice_does_not_disclose_the_text() -> None:
    assert not is_refused(scene(), to="bob@corp.com", id="row-77812", body="see there")
    assert is_refused(scene(), to="bob@corp.com", body="row-77812")


def test_a_call_without_a_receiver_is_no_exit() -> None:
    assert not is_refused(scene(), body=SALARY)


def test_the_words_of_an_untrusted_source_have_readers_as_well() -> None:
    told = scene((ReaderRule("page", "*", ("principal",)),)).read(
        "page", "The answer of life is not forty-three."
    )
    assert is_refused(told, to="bob@corp.com", body="the answer of life is not forty-three")


def test_beyond_the_bound_nothing_goes_to_any_receiver() -> None:
    told = scene(limit=20)
    verdict = told.call("send", to="bob@corp.com", body="hi")
    assert Rule.BOUND in {finding.rule for finding in verdict.findings}
    assert verdict.decision is Decision.DENY
    assert scene((), limit=20).call("send", to="bob@corp.com", body="hi").decision is Decision.ALLOW


def test_evidence_holds_for_a_sender_that_was_given_nothing() -> None:
    told = scene()
    call = Call("send", (Leaf("to", "bob@corp.com"), Leaf("body", SALARY)), 9, exposed=False)
    assert judge(told.ledger, told.policy, call).decision is Decision.DENY


def test_the_finding_says_who_may_read_it_and_where_it_came_from() -> None:
    found = next(
        one
        for one in scene().call("send", to="bob@corp.com", body="hunter2").findings
        if one.rule is Rule.READERS
    )
    assert found.detail == "'bob@corp.com' is not among its readers: principal"
    assert found.evidence is not None
    assert (found.path, found.evidence.text.origin.path, found.evidence.excerpt) == (
        "body",
        "token",
        "hunter2",
    )


def test_a_written_ledger_keeps_texts_with_readers() -> None:
    told = scene()
    told.ledger = Ledger.load(json.loads(json.dumps(told.ledger.dump())))
    assert is_refused(told, to="bob@corp.com", body="hunter2")
    full = scene(limit=20)
    assert Ledger.load(json.loads(json.dumps(full.ledger.dump()))).private.overflow


@dataclass
class Row:
    name: str
    salary: Annotated[str, Readers("principal")]


@dataclass
class Sheet:
    title: str
    rows: Annotated[list[Row], Readers("@corp.com")]


def test_a_type_says_who_may_read_its_fields() -> None:
    found = {
        leaf.path: leaf.readers
        for leaf in read_marks(Sheet).mark_leaves(Sheet("t", [Row("Ada", "8250 euros")]))
    }
    assert found == {
        "title": (),
        "rows[0].name": (("@corp.com",),),
        "rows[0].salary": (("@corp.com",), ("principal",)),
    }
    told = scene((), allow=("@corp.com",), query="send it")
    seen = Observation("sheets", read_marks(Sheet).mark_leaves(Sheet("t", [Row("Ada", "8250 euros")])), 4)
    told.ledger = told.ledger.observe(told.policy, seen)
    assert is_refused(told, to="bob@corp.com", body="8250 euros")
    assert not is_refused(told, to="bob@corp.com", body="Ada")


@pytest.mark.parametrize("entry", ["", "@", "directory:", "a@b@c"])
def test_a_mark_that_means_no_reader_is_an_error(entry: str) -> None:
    with pytest.raises(ValueError, match="names no reader"):
        Readers(entry)


ENTRIES = st.sampled_from(
    ["principal", "directory:book", "@corp.com", "corp.com", "bob@corp.com", "*", "Kim"]
)
GROUPS = st.lists(st.lists(ENTRIES, max_size=3).map(tuple), max_size=3).map(tuple)
PLACES = st.sampled_from(["bob@corp.com", "eve@evil.example", "https://corp.com/x", "Kim", "a@b@c"]).map(
    parse_destination
)
BOOK = (Text(TextOrigin("book", "email", 1), "bob@corp.com", Standing.DIRECTORY),)


@given(GROUPS, st.lists(ENTRIES, max_size=3).map(tuple), PLACES, st.sampled_from([(), BOOK]))
def test_more_readers_declared_never_let_more_out(
    groups: tuple[tuple[str, ...], ...], more: tuple[str, ...], place: object, known: tuple[Text, ...]
) -> None:
    assert admits(groups, place, known) or not admits((*groups, more), place, known)


@given(st.lists(st.tuples(st.sampled_from("ab*"), ENTRIES), max_size=4))
def test_each_rule_that_covers_a_field_counts(rules: list[tuple[str, str]]) -> None:
    declared_ = tuple(ReaderRule("s", name, (entry,)) for name, entry in rules)
    leaf = Leaf("[0].a", "x", readers=(("Kim",),))
    assert set(collect_required_readers(declared_, "s", leaf)) == {
        ("Kim",),
        *((entry,) for name, entry in rules if name in "a*"),
    }
    assert collect_required_readers(declared_, "other", Leaf("a", "x")) == ()


TEXTS = st.lists(st.text("abcd 12.", min_size=1, max_size=40), max_size=4)


@given(TEXTS, TEXTS, st.text("abcd 12.", max_size=60))
def test_more_private_text_never_allows_more(first: list[str], more: list[str], said: str) -> None:
    def count_after(bodies: list[str]) -> int:
        texts = [
            (Text(TextOrigin("s", "", n), body, Standing.RECORD), (("principal",),))
            for n, body in enumerate(bodies)
        ]
        private = PrivateTexts().add(texts, 1 << 20)
        return len(list(private.find_matches([said], private.pools)))

    assert bool(count_after(first)) <= bool(count_after(first + more))


@given(st.text(min_size=1, max_size=60), st.text("xyz .", max_size=20), st.text("xyz .", max_size=20))
def test_a_private_text_is_found_in_any_place(body: str, before: str, behind: str) -> None:
    from agentserver.provenance.evidence.folding import fold_bytes

    private = PrivateTexts().add([(Text(TextOrigin("s", "", 1), body, Standing.RECORD), ())], 1 << 20)
    found = list(private.find_matches([before, body, behind], private.pools))
    assert bool(found) >= (len(fold_bytes(body)) >= 6)


@pytest.mark.parametrize(
    "arguments",
    [{"note": TOKEN}, {"note": "hunter2"}, {"body": {"hunter2": "x"}}, {"body": [{"hunter2": {"a": 1}}]}],
)
def test_an_undeclared_word_and_a_key_are_read_by_the_receiver(arguments: dict[str, object]) -> None:
    assert is_refused(scene(), to="bob@corp.com", **arguments)
    assert not is_refused(scene(), to="bob@corp.com", id=TOKEN, **dict.fromkeys(arguments, "x"))
