from __future__ import annotations

from enum import StrEnum

import pytest

from agentserver import HandlerResponse
from agentserver.contract import Code, Target
from agentserver.core.drafts.replies import normalise
from agentserver.core.messages import Drafts, HandlerFailure
from agentserver.core.records.wording import WORDING
from agentserver.core.refusals import Refusal
from agentserver.core.state.requests import ResultLimits
from agentserver.payload.codec import Codecs, UndeclaredPayload
from agentserver.wire.envelope import Bounds
from tests.core.paper import Answer, Ask, Note

CODECS = Codecs([Ask, Answer, Note])
respond = HandlerResponse.respond


AMPLE = ResultLimits(1000, 1 << 30)


def read(value, room=AMPLE, **bounds):
    return normalise(value, CODECS, Bounds(**bounds), room)


def markup(payload):
    return CODECS.of(type(payload)).encode(payload)


def test_nothing_is_no_draft():
    assert read(None) == read([]) == read(()) == Drafts()


@pytest.mark.parametrize("several", [list, tuple])
def test_responses_become_drafts_in_their_order(several):
    found = read(several([respond(Answer("1")), HandlerResponse(Ask("2"), "b")]))
    assert [(draft.to, draft.root) for draft in found.drafts] == [
        (Target.CALLER, CODECS.of(Answer).name),
        ("b", CODECS.of(Ask).name),
    ]
    assert [draft.markup for draft in found.drafts] == [markup(Answer("1")), markup(Ask("2"))]
    assert [CODECS.for_root(draft.root).decode(draft.element) for draft in found.drafts] == [
        Answer("1"),
        Ask("2"),
    ]
    assert not found.deprecated
    assert read(respond(Answer("1"))).drafts[0].markup == markup(Answer("1"))


def test_a_class_that_the_closed_codecs_do_not_hold_is_refused_with_advice_for_the_log_alone():
    closed = Codecs([Ask, Answer], closed=True)
    assert isinstance(normalise(respond(Answer("1")), closed, Bounds(), AMPLE), Drafts)
    for value in (HandlerResponse(Note("x"), "b"), [respond(Answer("1")), HandlerResponse(Note("x"), "b")]):
        found = normalise(value, closed, Bounds(), AMPLE)
        assert (found.code, found.to, found.corrections) == (Code.VALIDATION, "b", ())
        assert "list it under replies:" in WORDING.join_lines(found.detail)
    assert closed.for_root(CODECS.of(Note).name) is None
    with pytest.raises(UndeclaredPayload):
        closed.add(Note)
    with pytest.raises(UndeclaredPayload):
        closed.add(Note.__payload__)
    assert closed.add(Ask) is closed.of(Ask)


def test_one_invalid_payload_blocks_all():
    found = read([HandlerResponse(Ask("fine"), "b"), HandlerResponse(Ask("\x00"), "c")])
    assert isinstance(found, Refusal)
    assert (found.code, found.to) == (Code.VALIDATION, "c")
    assert "Ask.text" in found.corrections[0]
    assert "\x00" not in found.corrections[0]


def test_a_payload_beyond_the_bounds_gets_the_bound_in_its_error():
    found = read(respond(Answer("x" * 300)), bytes=256)
    assert (found.code, found.to, found.corrections) == (Code.VALIDATION, "", ("more than 256 bytes",))


@pytest.mark.parametrize(
    "value",
    [
        42,
        "text",
        {},
        object(),
        [42],
        [None],
        (respond(Answer("x")), None),
        respond(42),
        respond(Answer),
        HandlerResponse(Ask("x"), 1),
    ],
)
def test_an_invalid_result_is_a_defect(value):
    found = read(value)
    assert isinstance(found, HandlerFailure)
    assert found.code is Code.INTERNAL
    assert WORDING.join_lines(found.detail)


class Names(StrEnum):
    B = "b"


class Shifty(str):
    """Looks like another name at every look."""

    __slots__ = ()

    def __str__(self):
        return "bank"

    def __eq__(self, other):
        return True

    __hash__ = str.__hash__


@pytest.mark.parametrize("name", [Names.B, Shifty("b")])
def test_a_target_is_exactly_the_text_it_holds(name):
    (draft,) = read(HandlerResponse(Ask("x"), name)).drafts
    assert type(draft.to) is str
    assert draft.to == "b"


def test_text_is_read_strictly_where_that_is_possible():
    found = read((markup(Ask("1")) + "\n" + markup(Note("2"))).encode())
    assert [CODECS.for_root(draft.root).decode(draft.element) for draft in found.drafts] == [
        Ask("1"),
        Note("2"),
    ]
    assert [draft.to for draft in found.drafts] == [None, None]
    assert (found.deprecated, found.repairs) == (True, ())


def test_a_repair_is_noted():
    found = read(f"Sure!\n{markup(Answer('x'))}".encode())
    assert len(found.drafts) == 1
    assert found.repairs == ("left out prose around the payloads (character 0)",)


def test_text_without_a_known_element_is_refused_as_unroutable():
    found = read(b"Sorry, I cannot do that.")
    assert found.code is Code.ROUTING


def test_invalid_text_gets_a_correction():
    found = read(markup(Ask("x")).replace("text>", "test>").encode())
    assert found.code is Code.VALIDATION
    assert any("text" in correction for correction in found.corrections)
    assert read(b"<Ask><text>").corrections == ("the text ends within a value",)


def test_text_whose_canonical_form_is_too_long_is_refused():
    text = markup(Ask("-")).replace("-", ">" * 200).encode()
    assert len(text) < 512
    found = read(text, bytes=512)
    assert (found.code, found.corrections) == (Code.VALIDATION, ("more than 512 bytes",))
