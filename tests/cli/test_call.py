from __future__ import annotations

import json

import pytest

from agentserver import HandlerResponse
from agentserver.cli.call import Output, _print_answer
from agentserver.core.messages import Reply
from tests.core.paper import Ask, Paper, listener, rules

ORDER = ["--who", "Ada", "--no=7", "--items.0.sku", "-a", "--items.1.sku", "b"]


def test_the_answer_is_printed_in_fields(command, here):
    result = command("call", "greeter", "--name", "Ada")
    assert (result.exit_code, result.stdout) == (0, "text: Good day, Ada!\n")


def test_nested_fields_and_json(command, here):
    result = command("call", "both", *ORDER, "--root", "Order", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {
        "who": "Ada", "number": 7, "items": [{"sku": "-a", "count": 1}, {"sku": "b", "count": 1}],
    }  # fmt: skip


def test_xml_out(command, here):
    result = command("call", "greeter", "--name", "A & B", "--xml")
    assert (
        result.stdout
        == '<Greeting xmlns="urn:agentserver:payload:Greeting:v1"><text>Good day, A &amp; B!</text></Greeting>\n'
    )


def test_xml_output_has_no_terminal_control_characters(command, here):
    result = command("call", "greeter", "--name", "\x9b2J\u202e\u3164", "--xml")
    assert "<text>Good day, &#155;2J&#8238;&#12644;!</text>" in result.stdout


def test_xml_in(command, here, tmp_path):
    markup = '<Greet xmlns="urn:agentserver:payload:Greet:v1"><name>Ada</name></Greet>'
    assert command("call", "greeter", "--payload", "-", input=markup).stdout == "text: Good day, Ada!\n"
    path = tmp_path / "greet.xml"
    path.write_text(markup)
    assert command("call", "greeter", "--payload", str(path)).stdout == "text: Good day, Ada!\n"


def test_every_answer_is_printed(command, here):
    result = command("call", "twice", "--json")
    assert [json.loads(line)["text"] for line in result.stdout.splitlines()] == ["one", "two"]


def test_a_system_error_goes_to_standard_error_and_exits_1(command, here):
    result = command("call", "crash")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "internal: The message could not be processed." in result.stderr


def test_no_answer_exits_3(command, here):
    result = command("call", "silent")
    assert (result.exit_code, result.stdout) == (3, "")
    assert "ended without an answer" in result.stderr


def test_a_late_answer_exits_3(command, here):
    result = command("call", "waiter", "--seconds", "60", "--timeout", "0.1")
    assert result.exit_code == 3
    assert "not all answers came within 0.1 s" in result.stderr


def test_a_field_called_like_an_option_goes_by_set(command, here):
    result = command("call", "both", "--set", "name=Ada", "--root", "Greet")
    assert result.stdout == "name: Ada\n"
    assert command("call", "silent", "--set", "timeout=x").exit_code == 2
    assert command("call", "silent", "--timeout", "nan").exit_code == 2


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        (["greter", "--name", "x"], "no listener 'greter'; did you mean"),
        (["greeter", "--nme", "x"], "nme: no such field; did you mean name?"),
        (["greeter"], "greeter takes: name=<text>"),
        (["greeter", "name"], "'name' is no --field"),
        (["greeter", "--", "x"], "'x' is no --field"),
        (["greeter", "--name"], "--name needs a value"),
        (["greeter", "--set", "name"], "--set takes FIELD=VALUE, not 'name'"),
        (["both", "--name", "x"], "both takes Order, Greet: choose one with --root"),
        (["both", "--root", "Ping"], "both takes Order, Greet: choose one with --root"),
        (["greeter", "--name", "x", "--payload", "-"], "give fields or --payload, not both"),
        (["waiter", "--seconds", "soon"], "seconds: must be number"),
    ],
)
def test_usage_is_explained_and_exits_2(command, here, args, hint):
    result = command("call", *args)
    assert result.exit_code == 2
    assert hint in result.stderr


def test_an_invalid_payload_is_refused_by_the_server(command, here):
    result = command("call", "greeter", "--payload", "-", input="<a></b>")
    assert result.exit_code == 1
    assert "\nvalidation: " in result.stderr


def test_the_trace_goes_to_standard_error(command, here):
    tree = command("call", "greeter", "--name", "Ada", "--trace", "text")
    assert tree.stdout == "text: Good day, Ada!\n"
    assert "answered greeter -> console  Greeting" in tree.stderr
    lines = command("call", "greeter", "--name", "Ada", "--trace", "json").stderr.splitlines()
    assert [json.loads(line)["event"] for line in lines][:2] == ["received", "sent"]


def test_a_spent_budget_says_how_to_continue(capsys):
    paper = Paper(
        rules(listener("a"), messages=1), {"a": lambda call: [HandlerResponse.respond(Ask("x"))] * 2}
    ).ask()
    (spent,) = [event for event in paper.events if isinstance(event, Reply)]
    assert _print_answer(paper, spent, Output.FIELDS)
    assert "limits.messages" in capsys.readouterr().err
