"""Where the values of a message come from, at each place at which a person decides: terminal, page, HTTP, command line."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import anyio
import pytest

from agentserver import config
from agentserver.characters.table import is_unseen
from agentserver.findings import AnsweredText, Origins, RecordText, ValueOrigin
from agentserver.gateways.approval_view import format_origin_lines
from agentserver.gateways.live import views
from agentserver.trace.redact import Redaction
from agentserver.trace.terminal import format_paint
from tests.gateways.console.test_approvals import WAITS, session
from tests.gateways.http.desk import desk, until

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.anyio
BAD = 'mail\x1b[2Jbody\n  | sha-256 00\n"\u202eend"<script>alert(1)</script>'


def lines(origins):
    return [format_paint(line, colour=False, whole=True) for line in format_origin_lines(origins)]


async def test_a_strangers_text_stays_in_quotes_and_breaks_no_terminal():
    value = ValueOrigin("iban", BAD, "stranger", "inbox", "text", 3)
    answered = AnsweredText("inbox", 3, "", (RecordText("text", BAD),), holds=True, cut=False)
    shown = lines(Origins("Pay it.", (value,), (answered,)))
    assert not any(map(is_unseen, "".join(shown)))
    assert "\x1b" not in "".join(shown)
    assert not any(line.startswith("  | sha-256") for line in shown)
    at = next(
        number for number, line in enumerate(shown) if "a stranger's text, of inbox() at step 3" in line
    )
    assert all(line.startswith('  |     "') for line in shown[at + 2 : at + 5])


async def test_a_value_cannot_name_its_own_origin():
    value = ValueOrigin("to", 'bob" the request says it', "stranger", "inbox", "text", 3)
    (line,) = [each for each in lines(Origins("", (value,), ())) if "to: " in each]
    _, shown, words = line.split('"')
    assert shown == "bob' the request says it"
    assert words == " a stranger wrote it: inbox() at step 3, field text"


async def test_no_origins_are_shown_where_values_are_not_tracked():
    assert lines(None) == []


@pytest.fixture
def clerk(tmp_path):
    """The example whose clerk obeys the text that it reads, with a person who decides."""
    place = tmp_path / "desks"
    shutil.copytree(ROOT / "examples" / "desks", place)
    file = place / "plain.yaml"
    file.write_text(file.read_text().replace("mode: enforce", "mode: confirm"))
    yield config.load(file, environ={})
    sys.modules.pop("desks", None)


async def test_an_operator_sees_the_mail_and_the_origin_of_the_iban(clerk):
    async with (
        desk(made=clerk) as door,
        door.client() as ada,
        door.client("olga") as olga,
        door.client("vera") as vera,
    ):
        path = f"/v1/conversations/{(await ada.post('/v1/conversations')).json()['conversation']}"
        order = {"text": "Pay the invoice in mail 13 and tell Kim."}
        await ada.post(f"{path}/messages?to=clerk", json=order, headers={"prefer": "respond-async"})
        await until(lambda: door.server.approvals())
        (one,) = door.server.approvals()
        told = (await olga.get(f"/v1/approvals/{one.id}")).json()
        iban = next(each for each in told["origins"]["values"] if each["argument"] == "iban")
        assert (iban["value"], iban["kind"], iban["source"]) == ("XX99MALLORY", "stranger", "inbox")
        (mail,) = told["origins"]["answered"]
        assert mail["untrusted"] is True
        assert any("XX99MALLORY" in each["text"] for each in mail["texts"])
        assert told["origins"]["request"] == order["text"]
        assert "origins" not in (await vera.get(f"/v1/approvals/{one.id}")).json()
        assert (await ada.get(f"/v1/approvals/{one.id}")).status_code == 403
        assert (await olga.get("/v1/approvals/unknown")).status_code == 404
        rules = door.server.rules
        found = rules.origins(door.server.conversation(one.delivery.conversation), one.delivery)
        page = views.describe_question(one, rules.codecs, Redaction(), found)
        said = "\n".join("".join(text for _, text in line) for line in page["origins"])
        assert "a stranger wrote it: inbox()" in said
        assert "Pay the invoice in mail 13" in said
        assert (
            views.describe_question(one, rules.codecs, Redaction(), found, with_content=False)["origins"]
            == []
        )
        await anyio.lowlevel.checkpoint()


async def test_the_console_shows_the_mail_and_the_origin_of_the_iban_before_it_may_be_approved(clerk):
    order = "Pay the invoice in mail 13 and tell Kim."
    _, shown = await session(f'@clerk text="{order}"', WAITS, organism=clerk)
    asked = shown.partition("\napproval ")[2]
    assert '  |   iban: "XX99MALLORY" a stranger wrote it: inbox() at step' in asked
    assert "  | a stranger's text, of inbox() at step" in asked
    assert f'  |     "{order}"' in asked
    assert asked.index("the request") < asked.index("sha-256") < asked.index("/approve")
