from __future__ import annotations

import pytest

from agentserver.contract import Code
from agentserver.core.refusals import ERROR_WORDINGS, make_system_error
from agentserver.payload.codec import Codecs

RETRIABLE = {Code.ROUTING, Code.VALIDATION, Code.TIMEOUT, Code.BUSY}


def test_every_code_has_one_wording():
    assert set(ERROR_WORDINGS) == set(Code)
    assert len({wording.message for wording in ERROR_WORDINGS.values()}) == len(Code)


def test_the_routing_text_is_the_contracts():
    assert make_system_error(Code.ROUTING).message == (
        "Message could not be delivered. Please verify your target and try again."
    )


@pytest.mark.parametrize("code", Code)
def test_a_permitted_retry_is_offered_until_the_last_time(code):
    assert make_system_error(code).retry_allowed is (code in RETRIABLE)
    assert make_system_error(code, final=True).retry_allowed is False


@pytest.mark.parametrize("code", Code)
def test_only_an_invalid_payload_is_explained(code):
    told = make_system_error(code, ("Ask/text: is missing", "Ask/n: must be an integer"))
    if code is Code.VALIDATION:
        assert told.message.endswith(" Ask/text: is missing. Ask/n: must be an integer.")
    else:
        assert told == make_system_error(code)


@pytest.mark.parametrize("code", Code)
def test_every_refusal_can_be_written(code):
    codec = Codecs().of(type(make_system_error(code)))
    assert ERROR_WORDINGS[code].message in codec.encode(make_system_error(code))
