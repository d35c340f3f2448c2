from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver import HandlerResponse
from agentserver.codec import write_json
from agentserver.core.encoding.decision_codec import Origin
from agentserver.core.encoding.history import RecordedConversation, RecordedStep
from agentserver.core.encoding.snapshot import UnreadableError
from agentserver.core.messages import Delivery, Done, EventPlace, Moment, Reply
from agentserver.core.state.principals import Rights, Trust
from agentserver.history import export
from agentserver.history.replay import replay
from tests.core.paper import Answer, Ask, Paper, listener, rules
from tests.engines.stories import story_of

FIXTURES = Path(__file__).parents[1] / "fixtures" / "conversations"

SHOP = rules(listener("agent"))


def paper(text="tea"):
    one = Paper(SHOP, {"agent": lambda call: HandlerResponse.respond(Answer(call.payload.text))})
    one.say(Ask(text), "agent")
    return one.run()


def test_a_written_conversation_is_read_back():
    story = story_of(paper())
    assert export.load(export.dump(story)) == story
    assert replay(export.load(export.dump(story)), SHOP) is None


def test_a_reviewer_sees_every_character():
    story = story_of(paper("a\u202eb\u200bc\x85ü"))
    text = export.dump(story).decode()
    assert all(each.isprintable() for each in text.splitlines())
    assert "\\u202eb\\u200bc\\u0085ü" in text
    assert export.load(text.encode()) == story


def test_a_message_or_record_has_a_line_of_its_own():
    story = story_of(paper())
    lines = export.dump(story).decode().splitlines()
    for step in story.steps:
        for delivery in step.added:
            assert sum(f'"id": "{delivery.id}"' in line for line in lines) == 1


texts = st.text()
names = st.text(st.characters(exclude_categories=["Cs"]))
messages = st.binary() | names.map(str.encode)
steps = st.builds(
    RecordedStep,
    st.integers(1, 1 << 40),
    st.builds(Moment, st.floats(allow_nan=False, allow_infinity=False), st.binary(min_size=16, max_size=16)),
    st.lists(texts | st.none() | st.booleans()).map(lambda cause: write_json([1, cause])),
    st.lists(st.lists(texts)).map(lambda records: write_json([1, records])),
    st.lists(st.builds(Delivery, names, st.just("c"), names, names, names, names, names, names, messages,
                       st.integers(0, 99), names, st.just(0))).map(tuple),
    st.lists(st.builds(Reply, st.just("c"), names, names, names, messages, st.booleans(), st.just(False))
             | st.builds(Done, st.just("c"), names, st.booleans(), st.just(False))).map(tuple),
    st.just(b""), st.just(()),
)  # fmt: skip


def place_events(step):
    """The step with its events at the places that they have."""
    events = enumerate(step.events)
    return step._replace(events=tuple(e._replace(place=EventPlace(step.version, at)) for at, e in events))


rights = st.builds(Rights, st.sampled_from(Trust), st.none() | st.lists(names, max_size=3).map(tuple))


@given(st.lists(steps, max_size=4), rights)
def test_anything_recorded_can_be_written_and_read(found, rights):
    deliveries = {delivery.id: delivery for step in found for delivery in step.added}
    story = RecordedConversation(
        Origin("c", "console", "root", rights), tuple(map(place_events, found)), deliveries
    )
    written = export.dump(story)
    written.decode()
    assert export.load(written) == story


def test_texts_cover_everything_written():
    story = story_of(paper("hunter2 \u0085 x"))
    told = [text for _, text in export.iter_texts(story)]
    assert len(told) == 2 * len(story.steps)
    assert any("hunter2 \u0085 x" in text for text in told)
    assert any("hunter2 \\u0085 x" in text for text in told)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "cannot be read: it must be JSON text in UTF-8"),
        (b"\xff", "cannot be read: it must be JSON text in UTF-8"),
        (b"[]", "no recorded conversation"),
        (b'{"kind": "something"}', "no recorded conversation"),
        (b'{"kind": "agentserver conversation"}', "KeyError: 'format'"),
        (b'{"kind": "agentserver conversation", "format": 5}', "format 5; this one reads 1"),
        (b'{"kind": "agentserver conversation", "format": "1"}', "format 1"),
        (b'{"kind": "agentserver conversation", "format": 1, "id": 1, "steps": [{}]}', "/id: must be a text"),
    ],
)
def test_an_invalid_conversation_is_refused_in_plain_words(data, problem):
    with pytest.raises(UnreadableError, match=problem):
        export.load(data)


@pytest.mark.parametrize("place", ["deliveries", "events"])
def test_a_field_that_nobody_knows_is_refused(place):
    read = json.loads(export.dump(story_of(paper())))
    row = next(step for step in read["steps"] if step[place])[place][0]
    row["surprise"] = 1
    if place == "events":
        row["message"] = ""
    with pytest.raises(UnreadableError, match="surprise"):
        export.load(json.dumps(read).encode())


def test_a_saved_conversation_is_read_and_written_as_it_was():
    story = export.load((FIXTURES / "shop.json").read_bytes())
    assert (story.beginning.principal, len(story.steps)) == ("console", 18)
    assert export.dump(story) == (FIXTURES / "shop.json").read_bytes()
