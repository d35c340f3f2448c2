"""What a worker said, held against what a handler in the server could have done."""

from __future__ import annotations

import pytest

from agentserver.contract import Code, Target
from agentserver.core.decide import decisions
from agentserver.core.messages import Drafts, Effects, HandlerFailure, HandlerReturn
from agentserver.core.refusals import Refusal
from agentserver.core.state.logs import LogChange
from agentserver.worker import reading
from agentserver.worker.frames import FailedFrame, MessageFrame, ReturnedFrame
from tests.core.paper import Answer, Ask, Note, Paper, listener, rules

STORAGE = 400


@pytest.fixture
def paper():
    return Paper(rules(listener("a"), storage=STORAGE), {})


@pytest.fixture
def accepted_hosts(paper):
    paper.say(Ask("hi"), "a")
    found = decisions.accept(paper.conversation, paper.waiting[0], paper.rules)
    assert isinstance(found, decisions.AcceptedDelivery)
    return found


def read(paper, accepted, said=(), storage=None, logged=(), closed=()):
    stored = {name: None if text is None else text.encode() for name, text in (storage or {}).items()}
    changes = tuple(LogChange(kind, gone, tuple(map(str.encode, new))) for kind, gone, new in logged)
    frame = ReturnedFrame(1, tuple(said), Effects(stored, tuple(closed), changes))
    return reading.decode_result(frame, accepted, paper.rules.codecs, paper.rules.bounds, STORAGE)


def markup(paper, payload):
    return paper.rules.codecs.of(type(payload)).encode(payload)


def name(paper, kind):
    return paper.rules.codecs.of(kind).name


def test_a_result_is_as_if_the_handler_had_run_here(paper, accepted_hosts):
    said = [
        MessageFrame(None, True, markup(paper, Answer("yes"))),
        MessageFrame("b", False, markup(paper, Note("no"))),
    ]
    stored = {name(paper, Note): markup(paper, Note("kept")), name(paper, Answer): None}
    logged = [(name(paper, Note), 0, [markup(paper, Note("one"))])]
    got = read(paper, accepted_hosts, said, stored, logged)
    assert isinstance(got, HandlerReturn)
    assert isinstance(got.result, Drafts)
    assert [(draft.to, draft.root) for draft in got.result.drafts] == [
        (Target.CALLER, name(paper, Answer)),
        ("b", name(paper, Note)),
    ]
    assert got.effects.stored == {
        name(paper, Note): stored[name(paper, Note)].encode(),
        name(paper, Answer): None,
    }
    assert [change.kind for change in got.effects.logged] == [name(paper, Note)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<Answer/>",
        "no markup",
        "<!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]><a>&b;</a>",
        "<a xmlns='urn:unknown'/>",
        "<a>" * 500,
    ],
)
def test_an_invalid_payload_is_refused_as_the_senders_fault(paper, accepted_hosts, text):
    got = read(paper, accepted_hosts, [MessageFrame(None, True, text)])
    assert isinstance(got, HandlerReturn)
    assert isinstance(got.result, Refusal)
    assert got.result.code is Code.VALIDATION


def test_more_messages_than_there_is_room_for_end_the_request(paper, accepted_hosts):
    one = MessageFrame(None, True, markup(paper, Answer("yes")))
    got = read(paper, accepted_hosts, [one] * (accepted_hosts.room.messages + 1))
    assert got.result.code is Code.BUDGET


@pytest.mark.parametrize(
    "forged",
    [
        {"said": [MessageFrame("a", True, "<a/>")]},
        {"closed": ["another's"]},
        {"storage": {"{urn:x}unknown": "<a/>"}},
        {"logged": [("{urn:x}unknown", 0, ["<a/>"])]},
    ],
)
def test_an_act_that_no_handler_could_do_breaks_the_worker(paper, accepted_hosts, forged):
    got = read(paper, accepted_hosts, **forged)
    assert isinstance(got, HandlerFailure)
    assert got.code is Code.INTERNAL


def test_storage_is_held_against_its_own_schema_and_its_bound(paper, accepted_hosts):
    note, answer = name(paper, Note), name(paper, Answer)
    for stored in (
        {note: "<a/>"},
        {note: markup(paper, Answer("x"))},
        {answer: markup(paper, Answer("x" * STORAGE))},
    ):
        assert isinstance(read(paper, accepted_hosts, storage=stored), HandlerFailure)
    many = [(note, 0, [markup(paper, Note("x" * 50))] * 5)]
    assert isinstance(read(paper, accepted_hosts, logged=many), HandlerFailure)
    twice = [(note, 0, []), (note, 0, [])]
    assert isinstance(read(paper, accepted_hosts, logged=twice), HandlerFailure)
    assert isinstance(read(paper, accepted_hosts, logged=[(note, -1, [])]), HandlerFailure)


OWN = "{urn:agentserver:payload:Blob:v1}Blob"
BLOB = '<Blob xmlns="urn:agentserver:payload:Blob:v1"><text>x</text></Blob>'


def test_a_class_of_the_workers_own_is_kept_for_it(paper, accepted_hosts):
    """The server never imports the handler's module, so it knows no schema of it."""
    got = read(paper, accepted_hosts, storage={OWN: BLOB}, logged=[(OWN, 0, [BLOB])])
    assert isinstance(got, HandlerReturn)
    assert got.effects.stored == {OWN: BLOB.encode()}
    assert [change.kind for change in got.effects.logged] == [OWN]
    assert isinstance(read(paper, accepted_hosts, storage={OWN: None}), HandlerReturn)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (OWN, "<Blob/>"),  # another name
        (OWN, BLOB[:-3]),
        (OWN, BLOB.replace("x<", "x" * STORAGE + "<")),
        ("{urn:agentserver:system}Mine", '<Mine xmlns="urn:agentserver:system"/>'),
        ("Blob", "<Blob/>"),
        ("{a b}Blob", '<Blob xmlns="a b"/>'),
        ("{urn:x}" + "B" * 400, None),
        ("{urn:agentserver:system}Mine", None),
        ("log t ", None),
    ],
)
def test_an_impossible_class_of_a_worker_is_not_kept(paper, accepted_hosts, name, text):
    assert isinstance(read(paper, accepted_hosts, storage={name: text}), HandlerFailure)
    logged = [(name, 1, [] if text is None else [text])]
    assert isinstance(read(paper, accepted_hosts, logged=logged), HandlerFailure)


def test_a_failure_with_faults_is_the_senders_to_correct():
    got = reading.decode_failure(FailedFrame(1, "validation", ("text: is missing",)))
    assert isinstance(got, HandlerReturn)
    assert got.result.corrections == ("text: is missing",)
    assert isinstance(reading.decode_failure(FailedFrame(1, "it broke", ())), HandlerFailure)


@pytest.mark.parametrize(
    ("fault", "code"),
    [("rate", Code.BUSY), ("budget", Code.BUDGET), ("rejected", Code.INTERNAL), ("no such", Code.INTERNAL)],
)
def test_a_caller_learns_the_kind_of_a_completion_that_failed(fault, code):
    assert reading.decode_failure(FailedFrame(1, "it broke", (), fault)).code is code
