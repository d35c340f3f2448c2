"""Names of the door, problems and places, without a socket."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.contract import Code
from agentserver.core.messages import EventPlace
from agentserver.core.refusals import ERROR_WORDINGS
from agentserver.gateways.http import forms
from agentserver.gateways.http.options import names
from agentserver.gateways.http.parts import STATUS, by_code
from agentserver.wire import envelope
from tests.core.paper import Answer, listener, rules


@given(st.integers(0, 10**17), st.integers(0, 10**17))
def test_a_place_is_read_as_it_is_written(version, position):
    place = EventPlace(version, position)
    assert forms.parse_place(forms.format_place_id(place)) == place


@given(st.text(max_size=40))
def test_any_text_is_a_place_or_none(text):
    found = forms.parse_place(text)
    assert found is None or forms.format_place_id(found) == text


@given(st.dictionaries(st.text(), st.text() | st.integers() | st.none()))
def test_an_event_of_a_stream_is_one_line_of_data(said):
    data = forms.dump_event({**said, "type": "reply", "place": "1-0"})
    lines = data.decode("utf-8", "surrogatepass").split("\n")
    assert [line.partition(":")[0] for line in lines if line] == ["event", "id", "data"]
    assert "\r" not in data.decode("utf-8", "surrogatepass")


def test_secrets_are_taken_out_of_names_and_no_value_is_lost_by_it():
    def redact(text):
        return text.replace("hunter22", "*").replace("hunter33", "*")

    found = forms.redact_value({"hunter22": 1, "hunter33": {"a hunter22": ["hunter22"]}}, redact)
    assert found == {"*": 1, "*'": {"a *": ["*"]}}


@pytest.mark.parametrize("code", list(Code))
def test_each_code_has_a_status_and_the_text_of_its_system_error(code):
    problem = by_code(code)
    told = json.loads(problem.body)
    assert told["detail"] == ERROR_WORDINGS[code].message
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


def test_a_payload_that_fills_its_bounds_is_shown_although_its_envelope_exceeds_them():
    known = rules(listener("a"))
    codec = known.codecs.of(Answer)
    text = "x" * (known.bounds.bytes - len(codec.encode(Answer(""))))
    message = envelope.write("a", "console", "t", codec.encode(Answer(text)))
    assert len(message) > known.bounds.bytes
    assert forms.encode_payload(message, known) == {"payload": "Answer", "value": {"text": text}}
