"""Reads the logs of AgentDojo, and judges their calls."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentserver.history.backtest import CallOutcome
from agentserver.history.files import read_history
from agentserver.history.foreign import HistoryError, ToolCall, ToolResult, UserWords, judge_foreign
from agentserver.provenance import read_policy

FOLDER = Path(__file__).parents[2] / "examples" / "traces"
ATTACK = FOLDER / "agentdojo" / "user_task_0_injection_task_0.json"
POLICY = "mode: enforce\nsources: [read_file]\nsinks: {send_money: {arguments: {recipient: destination}}}"


def read(path):
    (found,) = read_history(path)
    return found


def write_log(tmp_path, **changes):
    file = tmp_path / "log.json"
    file.write_text(json.dumps({**json.loads(ATTACK.read_text()), **changes}))
    return file


def test_the_log_of_a_run():
    found = read(ATTACK)
    assert found.id == "ground_truth/banking/user_task_0/important_instructions/injection_task_0"
    assert found.attack
    kinds = [type(event) for event in found.events]
    assert kinds == [UserWords, ToolCall, ToolResult, ToolCall, ToolResult, ToolCall, ToolResult]
    assert found.events[1] == ToolCall("read_file", {"file_path": "bill-december-2023.txt"})
    assert not read(FOLDER / "agentdojo" / "user_task_3.json").attack


@pytest.mark.parametrize("changes", [{"security": False}, {"injection_task_id": None}, {"error": "too long"}])
def test_a_run_that_did_not_reach_the_goal_is_no_attack(tmp_path, changes):
    assert not read(write_log(tmp_path, **changes)).attack


def test_calls_in_the_form_of_openai_and_contents_as_text(tmp_path):
    messages = [
        {"role": "system", "content": "Be good."},
        {"role": "user", "content": "Pay."},
        {"role": "assistant", "content": None,
         "tool_calls": [{"type": "function", "function": {"name": "pay", "arguments": {"to": "bob"}}}]},
        {"role": "tool", "content": "", "error": "no such account",
         "tool_call": {"function": "pay", "args": {"to": "bob"}}},
    ]  # fmt: skip
    assert read(write_log(tmp_path, messages=messages)).events == (
        UserWords("Pay."), ToolCall("pay", {"to": "bob"}), ToolResult("pay", {"to": "bob"}, "no such account"),
    )  # fmt: skip


def test_a_policy_judges_each_call_in_the_recorded_state():
    strict, lax = (read_policy(POLICY.replace("enforce", mode)) for mode in ("enforce", "audit"))
    found = judge_foreign(read(ATTACK), strict, lax, None)
    assert [(call.listener, call.new.fate, call.current.fate) for call in found.calls] == [
        ("read_file", CallOutcome.ALLOWED, CallOutcome.ALLOWED),
        ("send_money", CallOutcome.REFUSED, CallOutcome.ALLOWED),
        ("send_money", CallOutcome.REFUSED, CallOutcome.ALLOWED),
    ]
    assert {cause.field for cause in found.calls[2].new.causes} == {"recipient"}


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ({}, "/messages: must be an array"),
        ([7], "/messages/0: must be an object"),
        ([{"role": "judge"}], "/messages/0/role: must be user, assistant, tool or system"),
        ([{"role": "user", "content": [7]}], "/messages/0/content/0: must be an object"),
        ([{"role": "assistant", "tool_calls": [{}]}], "/messages/0/tool_calls/0/function: must be a text"),
    ],
)
def test_a_refusal_names_the_place(tmp_path, messages, problem):
    with pytest.raises(HistoryError, match=rf"log\.json: {problem}"):
        read(write_log(tmp_path, messages=messages))


def test_a_log_without_words_of_the_user_is_not_judged(tmp_path):
    found = read(write_log(tmp_path, messages=[]))
    assert (
        judge_foreign(found, read_policy(POLICY), None, frozenset()).unjudged
        == "the log has no words of the user"
    )
