"""Secrets of every length, through everything that people read: no part of one appears, however it was cut."""

from __future__ import annotations

import io
import json
import logging
import random
import sqlite3
import string
import sys
from pathlib import Path

import anyio
import pytest
from click.testing import CliRunner

from agentserver import config
from agentserver.assembly import build
from agentserver.characters.printing import clean_line, clean_lines, redact_and_truncate
from agentserver.cli import cli
from agentserver.cli.process import Format, JsonFormatter, Level, Logging, TextFormatter, configure
from agentserver.config.yaml.secrets import MIN_LENGTH, RedactingFilter, Secrets
from agentserver.provenance.evidence.labels import Call, Leaf, Mode
from agentserver.provenance.observations.lazy import Lazy
from agentserver.provenance.policy.declarations import Effect, Rule
from agentserver.provenance.verdict import Decision, Finding, Verdict, explain, redact_verdict
from agentserver.trace.terminal import Screen, Style, split_own_lines

LONGEST = 4096
GRAM = 6
"""Characters in a row of a secret that nothing may show; a shorter secret may not be shown whole."""

SIGNS = string.ascii_letters + string.digits + " /+=&<>'\"\\äж\n\t"


def secret(length: int) -> str:
    """Unlike any other text, with what every form of writing escapes."""
    rng = random.Random(length)
    inner = "".join(rng.choice(SIGNS) for _ in range(length - 2))
    return f"{rng.choice(string.ascii_letters)}{inner}{rng.choice(string.digits)}"


def grams(text: str) -> set[str]:
    return {text[at : at + GRAM] for at in range(len(text) - GRAM + 1)}


def shown_of(value: str, shown: str) -> set[str]:
    """What of a secret is in a text."""
    if len(value) <= GRAM:
        return {value} if value in shown else set()
    return grams(value) & grams(shown)


LENGTHS = sorted({*range(MIN_LENGTH, 132), *range(132, LONGEST, 97), 199, 200, 201, 499, 500, 501, 999, 1000, 1001, 1999,
                  2000, 2001, 3999, 4000, 4001, LONGEST})  # fmt: skip


def test_no_length_survives_derivation_from_a_text():
    for length in LENGTHS:
        value = secret(length)
        redact = Secrets.of([value]).redact
        for room in (0, 100, 990):
            text = f"{'.' * room}{value} behind"
            made = [
                clean_line(text, 120, redact),
                clean_lines(text, 120, 9, redact),
                redact_and_truncate(text, 120, redact),
            ]
            assert not any(shown_of(value, each) for each in made), length


def lazy_verdict(value: str) -> Verdict:
    call = Call("pay", (Leaf("to", value),), 1, 0.0)
    found = (Finding(Rule.DESTINATION, Effect.BLOCK, "to", f"for {value}"),)
    return Verdict(call, Mode.CONFIRM, Decision.ASK, Lazy.ready(found))


def test_no_length_survives_an_explanation():
    for length in LENGTHS:
        value = secret(length)
        verdict = redact_verdict(lazy_verdict(value), Secrets.of([value]).redact)
        assert not shown_of(value, explain(verdict)), length


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()], ids=["text", "json"])
def test_no_length_survives_a_log(formatter):
    for length in LENGTHS:
        value = secret(length)
        try:
            raise ValueError(f"{'x' * 3980}{value}")  # noqa: TRY301
        except ValueError:
            record = logging.LogRecord("a", 30, "p", 1, "it: %s", (f"{'y' * 3980}{value}",), sys.exc_info())
        RedactingFilter(Secrets.of([value])).filter(record)
        assert not shown_of(value, formatter.format(record)), length


@pytest.mark.anyio
async def test_no_length_survives_the_screen():
    for length in LENGTHS:
        value = secret(length)
        out = io.StringIO()
        screen = Screen(redact=Secrets.of([value]).redact, out=lambda out=out: out)
        screen.show(((Style.PLAIN, f"{'z' * 3990}{value}"),))
        screen.show(*(((Style.PLAIN, line),) for line in split_own_lines(screen.redact(f"a\n{value}\nb"))))
        await screen.flush()
        assert not shown_of(value, out.getvalue()), length


def test_the_beginning_that_an_earlier_version_left_is_hidden():
    value = secret(300).translate({ord("\n"): "n", ord("\t"): "t"})
    redact = Secrets.of([value]).redact
    for cut in (8, 50, 119, 299):
        for end in ("", "\n", "…", "...", " ... (12 more)"):
            assert not shown_of(value, redact(f"ValueError: {value[:cut]}{end}")), (cut, end)
    assert redact(f"{value[:20]} is not cut") == f"{value[:20]} is not cut"


# The whole way

LIVED = (4, 5, 7, 8, 9, 15, 40, 119, 120, 121, 199, 200, 201, 499, 500, 501, 999, 1000, 1001, 1999, 2000, 2001, 3999,
         4000, 4001, 4096)  # fmt: skip

CODE = """
from dataclasses import dataclass

from agentserver import HandlerResponse, SystemError, invocation, xmlify


@dataclass(frozen=True)
class Keys:
    keys: list[str]


@xmlify
@dataclass(frozen=True)
class Ask:
    number: int
    room: int


@xmlify
@dataclass(frozen=True)
class Said:
    text: str


async def crash(payload: Ask, metadata):
    raise ValueError("x" * payload.room + invocation().settings.keys[payload.number])


async def wrong(payload: Ask, metadata):
    return HandlerResponse(Said("x"), "x" * payload.room + invocation().settings.keys[payload.number])


async def clerk(payload: Ask | Said | SystemError, metadata):
    if isinstance(payload, Ask):
        return HandlerResponse(Said("x" * payload.room + invocation().settings.keys[payload.number]), "vault")
    return HandlerResponse.respond(Said("done"))


async def vault(payload: Said, metadata):
    return HandlerResponse.respond(payload)
"""


def organism(keys: int) -> str:
    given = "\n".join(f'        - "${{KEY{number}}}"' for number in range(keys))
    settings = f"    settings_class: canary_code.Keys\n    settings:\n      keys:\n{given}\n"
    entries = "".join(
        f"  - name: {name}\n    description: Does.\n    handler: canary_code.{name}\n"
        f"    payload_class: canary_code.Ask\n{more}{settings}"
        for name, more in (("crash", ""), ("wrong", ""), ("clerk", "    peers: [vault]\n"))
    )
    vault = "  - {name: vault, description: Is kept., handler: canary_code.vault, approval: required}\n"
    return f"name: canary\nlimits: {{queue: 100000, messages: 100000}}\nlisteners:\n{entries}{vault}"


@pytest.fixture(scope="module")
def lived_project(tmp_path_factory):
    """A project whose secrets have been in exceptions, in names of targets and in messages that wait."""
    home = tmp_path_factory.mktemp("canary")
    (home / "canary_code.py").write_text(CODE)
    (home / "organism.yaml").write_text(organism(len(LIVED)))
    keys = {f"KEY{number}": secret(length) for number, length in enumerate(LIVED)}
    logs = io.StringIO()
    before = logging.root.handlers[:], logging.root.level, sys.stderr
    sys.stderr = logs
    try:
        loaded = config.load(home / "organism.yaml", environ=keys)
        for form, rooms in ((Format.TEXT, (0, 990)), (Format.JSON, (100,))):
            configure(Logging(Level.DEBUG, form), loaded.secrets)
            anyio.run(_live, loaded, rooms)
    finally:
        logging.captureWarnings(False)
        logging.root.handlers[:], sys.stderr = before[0], before[2]
        logging.root.setLevel(before[1])
        sys.excepthook = sys.__excepthook__
        config.forget(loaded)
    return home, keys, logs.getvalue()


def _ask(number, room):
    return f'<Ask xmlns="urn:agentserver:payload:Ask:v1"><number>{number}</number><room>{room}</room></Ask>'.encode()


async def _live(loaded, rooms):
    async with build(loaded, durable=True) as server:
        for to in ("crash", "wrong"):
            handle = await server.open(f"desk-{to}")
            for room in rooms:
                for number in range(len(LIVED)):
                    assert await handle.ask(_ask(number, room), to)
            handle.detach()
        waiting = await server.open("desk")
        for number in range(len(LIVED)):
            await waiting.send(_ask(number, 3990), "clerk")
        while len(server.approvals()) < len(LIVED):  # noqa: ASYNC110 - the server has no event for it
            await anyio.sleep(0.01)
        waiting.detach()


def clean(keys, shown: str) -> None:
    assert shown
    there = grams(shown)
    for value in keys.values():
        left = grams(value) & there if len(value) > GRAM else shown_of(value, shown)
        assert not left, (len(value), left)


@pytest.fixture
def verb(lived_project, monkeypatch):
    home, keys, _ = lived_project
    monkeypatch.chdir(home)
    for name, value in keys.items():
        monkeypatch.setenv(name, value)

    def run(*args):
        sys.modules.pop("canary_code", None)
        done = CliRunner().invoke(cli, [*map(str, args)])
        sys.modules.pop("canary_code", None)
        assert done.exit_code in {0, 1}, done.output
        return done.output

    return run


def test_nothing_is_left_in_the_log(lived_project):
    _, keys, logs = lived_project
    assert logs.count("[redacted]") > 2 * len(LIVED)
    clean(keys, logs)


@pytest.mark.parametrize("form", [(), ("--json",), ("--html",)], ids=["text", "json", "html"])
def test_nothing_is_left_in_a_trace(lived_project, verb, form):
    found = [json.loads(line)["id"] for line in verb("conversations", "--json").splitlines()]
    shown = "".join(verb("trace", key, *form) for key in found[:3])
    assert "[redacted]" in shown
    clean(lived_project[1], shown)


def test_no_secret_remains_in_waiting_or_abandoned_messages(lived_project, verb):
    waiting = [json.loads(line) for line in verb("approvals", "--json").splitlines()]
    assert len(waiting) == 2 * len(LIVED)
    shown = [
        verb("approvals"),
        json.dumps(waiting),
        *(verb("approvals", "show", one["id"]) for one in waiting[::9]),
    ]
    dead = verb("dead").splitlines()
    shown += [*dead, *(verb("dead", "show", line.split()[0]) for line in dead[::29])]
    clean(lived_project[1], "\n".join(shown))


def test_a_message_with_a_secret_is_not_saved(lived_project, verb):
    key = json.loads(verb("approvals", "--json").splitlines()[0])["conversation"]
    done = CliRunner().invoke(cli, ["replay", key, "--save", "case.json"])
    assert done.exit_code == 2
    assert not Path("case.json").exists()
    clean(lived_project[1], done.output)


def test_an_exception_leaves_no_text_in_the_journal_or_its_export(lived_project, verb, tmp_path):
    _, keys, _ = lived_project
    one = json.loads(verb("conversations", "--json", "--principal", "desk-crash").splitlines()[-1])["id"]
    verb("journal", "export", tmp_path / "copy.sqlite", one)
    with sqlite3.connect(tmp_path / "copy.sqlite") as copy:
        rows = "\n".join(str(row) for row in copy.execute("select cause, records from step"))
    copy.close()
    assert "[redacted]" in rows
    clean(keys, rows)
