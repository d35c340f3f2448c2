"""``agentserver send --follow``: what comes before the answer, on standard error."""

from __future__ import annotations

import anyio
import pytest

from agentserver.cli.send import SendOptions, _exchange, _FollowedLine
from agentserver.client import Client, DeltaEvent, ProblemError
from tests.gateways.http.desk import until
from tests.gateways.streaming import stream_desk

pytestmark = pytest.mark.anyio

FOLLOW = SendOptions("agent", None, None, keep=False, key=None, within=60.0, follow=True)


async def test_pieces_and_calls_are_shown_before_the_answer_and_are_no_part_of_it(tmp_path, capsys):
    found, heard = [], []

    def shown_text():
        heard.append(capsys.readouterr().err)
        return "".join(heard)

    async with stream_desk(tmp_path) as (door, provider), Client(door.url, "ada", plain=True) as client:

        async def send():
            found.append(await _exchange(client, {"text": "go"}, FOLLOW))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            exchange = await provider.next()
            await until(lambda: len(door.door.holding) == 2)  # the stream, and the wait for the answer
            await exchange.whole("web", '{"page": "x"}')
            exchange = await provider.next()
            await exchange.begin()
            await exchange.call("Told")
            await exchange.say('{"text": "One\\n')
            await until(lambda: "One" in shown_text())
            await exchange.say('two"}')
            await exchange.finish()
    assert found[0].value == {"text": "One\ntwo"}
    assert shown_text().startswith("agent calls web\nweb has answered\nOne\n")


async def test_a_refusal_leaves_as_without_following(tmp_path):
    async with stream_desk(tmp_path) as (door, _), Client(door.url, "ada", plain=True) as client:
        with pytest.raises(ProblemError):
            await _exchange(client, {"wrong": "go"}, FOLLOW)


@pytest.mark.parametrize(
    ("deltas", "text"),
    [
        ([("text", "a", 0), ("text", "c", 2)], "a\n"),
        ([("text", "a", 0), ("reset", "the model failed", 0), ("text", "b", 0)],
         "a\nthe text above does not count: the model failed\nb\n"),
        ([("text", "a\x1b[2J", 0)], "a\\x1b[2J\n"),
    ],
)  # fmt: skip
def test_gaps_resets_and_controls(deltas, text, capsys):
    line = _FollowedLine()
    for kind, piece, offset in deltas:
        line.add(DeltaEvent("r", "agent", kind, piece, offset))
    line.end()
    assert capsys.readouterr().err == text
