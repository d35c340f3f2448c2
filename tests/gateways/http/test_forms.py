"""Names of the door, problems and places, without a socket."""

from __future__ import annotations

import json

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.contract import Code
from agentserver.core.messages import EventPlace
from agentserver.core.refusals import WORDINGS
from agentserver.gateways.http import forms
from agentserver.gateways.http.held import Turns
from agentserver.gateways.http.options import names
from agentserver.gateways.http.problems import STATUS, by_code
from tests.machine import HANGS


@given(st.integers(0, 10**17), st.integers(0, 10**17))
def test_a_place_is_read_as_it_is_written(version, position):
    place = EventPlace(version, position)
    assert forms.place(forms.place_id(place)) == place


@given(st.text(max_size=40))
def test_any_text_is_a_place_or_none(text):
    found = forms.place(text)
    assert found is None or forms.place_id(found) == text


@given(st.dictionaries(st.text(), st.text() | st.integers() | st.none()))
def test_an_event_of_a_stream_is_one_line_of_data(said):
    data = forms.sent({**said, "type": "reply", "place": "1-0"})
    lines = data.decode("utf-8", "surrogatepass").split("\n")
    assert [line.partition(":")[0] for line in lines if line] == ["event", "id", "data"]
    assert "\r" not in data.decode("utf-8", "surrogatepass")


@pytest.mark.parametrize("code", list(Code))
def test_each_code_has_a_status_and_the_words_of_its_system_error(code):
    problem = by_code(code)
    told = json.loads(problem.body)
    assert told["detail"] == WORDINGS[code].message
    assert told["status"] == STATUS[code] == problem.status
    assert ("retry-after" in problem.headers) == (code is Code.BUSY)


@pytest.mark.parametrize(
    ("public", "local", "secure", "host", "origin"),
    [
        ("", True, False, "127.0.0.1:8420", "http://127.0.0.1:8420"),
        ("", True, True, "localhost:8420", "https://localhost:8420"),
        ("https://desk.example", False, True, "desk.example", "https://desk.example"),
        ("https://desk.example:8443", False, True, "desk.example:8443", "https://desk.example:8443"),
        ("https://[2001:db8::1]", False, True, "[2001:db8::1]:443", "https://[2001:db8::1]"),
        ("https://Desk.Example", True, False, "desk.example", "https://desk.example"),
    ],
)
def test_the_doors_own_names(public, local, secure, host, origin):
    hosts, origins = names(8420, public, local=local, secure=secure)
    assert host in hosts
    assert origin in origins
    assert "evil.example" not in hosts
    assert ("127.0.0.1:8420" in hosts) == local


@pytest.mark.anyio
async def test_a_principal_has_a_few_turns_at_a_time_and_others_their_own():
    turns, order = Turns(most=1, brief=10), []

    async def work(name, number):
        async with turns.turn(name):
            order.append((name, number))
            await anyio.sleep(0.01)

    async with anyio.create_task_group() as tasks:
        for number in range(3):
            tasks.start_soon(work, "flood", number)
        tasks.start_soon(work, "quiet", 0)
    assert order.index(("quiet", 0)) < order.index(("flood", 1))
    assert [number for name, number in order if name == "flood"] == [0, 1, 2]
    assert not turns._working
    assert not turns._waiting


@pytest.mark.anyio
async def test_a_turn_that_is_given_up_goes_to_the_next():
    turns, done = Turns(most=1, brief=10), []

    async def work(number):
        async with turns.turn("ada"):
            done.append(number)

    async with anyio.create_task_group() as tasks, turns.turn("ada"):
        for number in range(2):
            tasks.start_soon(work, number)
        await anyio.lowlevel.checkpoint()
        with anyio.move_on_after(0.01):
            await work("late")
    assert done == [0, 1]


@pytest.mark.anyio
async def test_a_request_that_waits_counts_no_more():
    turns = Turns(most=1, brief=0.01)
    async with turns.turn("ada"):
        with anyio.fail_after(HANGS):
            async with turns.turn("ada"):
                pass
