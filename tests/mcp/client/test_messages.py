"""Messages of a foreign server: read under limits, answered by an error where an answer is refused."""

from __future__ import annotations

import json

import pytest

from agentserver.mcp.client.messages import LIMITS, UNREADABLE, MessageForms, OverLimitError, ServerMessages
from tests.foreign_json.bombs import aim_bombs
from tests.hostile.rogue import RESULTS

FORMS = MessageForms()
ANSWER = '{"jsonrpc":"2.0","id":7,"result":%s}'
LAST = '{"result":%s,"jsonrpc":"2.0","id":7}'


@pytest.fixture
def messages():
    made = ServerMessages(FORMS)
    made.ask(7, "tools/call")
    return made


def read(messages, text, result="{}"):
    return messages.read((text % result).encode())


def test_an_answer_in_its_form_is_the_librarys_message(messages):
    found = read(messages, ANSWER, '{"content":[{"type":"text","text":"a"}]}')
    assert (found.id, found.result["content"][0]["text"]) == (7, "a")


@pytest.mark.parametrize("text", [ANSWER, LAST])
@pytest.mark.parametrize("bomb", ["invalid", "valid", "deep"])
def test_an_answer_beyond_the_limits_is_an_error_for_its_own_call(messages, text, bomb):
    found = messages.read((text % "%s").encode().replace(b"%s", RESULTS[bomb]))
    assert found.id == 7
    assert found.error.message.startswith("the answer must ")


@pytest.mark.parametrize(
    "result",
    [
        '{"content":[' + ",".join(["{}"] * 20_000) + "]}",
        '{"content":[],"content":[]}',
        '{"content":1}',
        "{,}",
    ],
)
def test_an_answer_in_no_form_is_an_error_that_says_it_cannot_be_read(messages, result):
    found = read(messages, ANSWER, result)
    assert (found.id, found.error.code) == (7, UNREADABLE)
    assert len(found.error.message) < 300


def test_an_answer_is_for_the_call_that_its_own_members_name_and_no_other(messages):
    inside = '{"content":[{"jsonrpc":"2.0","id":7}],"more":[' + ",".join(["0"] * 60_000) + "]}"
    for text in ('{"jsonrpc":"2.0","result":%s}', '{"jsonrpc":"2.0","id":8,"result":%s}'):
        with pytest.raises(OverLimitError):
            read(messages, text, inside)
    with pytest.raises(ValueError, match="UTF-8"):
        read(messages, "%s", "no message")


def test_unsolicited_messages_of_a_server_are_small_or_dropped(messages):
    text = '{"jsonrpc":"2.0","method":"notifications/message","params":{"data":%s}}'
    assert read(messages, text, "[1]").method == "notifications/message"
    assert read(messages, text, json.dumps([0] * 2000)) is None
    asking = '{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"messages":%s}}'
    assert read(messages, asking, json.dumps([{}] * 2000)) is None


def test_each_bomb_in_a_result_ends_its_own_call(messages):
    for name, data in aim_bombs(b'{"jsonrpc":"2.0","id":7,"result":{"content":%s}}').items():
        messages.ask(7, "tools/call")
        assert messages.read(data).error.message, name


def test_the_limit_of_bytes_applies_to_a_line():
    from agentserver.mcp.client.process import LINE

    assert LIMITS.bytes == LINE


def test_a_hint_that_the_library_does_not_know_is_kept(messages):
    messages.ask(8, "tools/list")
    tool = {"name": "a", "inputSchema": {"type": "object"}, "annotations": {"untrustedContentHint": True}}
    found = messages.read(json.dumps({"jsonrpc": "2.0", "id": 8, "result": {"tools": [tool, 1]}}).encode())
    assert found.error.code == UNREADABLE
    messages.ask(9, "tools/list")
    found = messages.read(json.dumps({"jsonrpc": "2.0", "id": 9, "result": {"tools": [tool]}}).encode())
    assert found.result["tools"][0]["_meta"] == {"untrustedContentHint": True}
