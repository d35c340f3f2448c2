"""The office whose post is closed at night: a guard of a project, from its YAML to a replay."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from agentserver.assembly import build
from agentserver.config import ConfigError, load
from agentserver.observers import describe
from agentserver.testing import FakeClock
from tests.examples.conftest import PROJECT, RunningOrganism

pytestmark = pytest.mark.anyio
YAML = "examples/hours/organism.yaml"


@pytest.fixture
def office(loaded):
    return loaded(YAML)


def clock_at(hour):
    return FakeClock(datetime(2001, 9, 9, hour, tzinfo=UTC).timestamp())


@pytest.mark.parametrize(("hour", "sent"), [(7, False), (8, True), (17, True), (18, False)])
async def test_letters_go_out_while_the_post_is_open(office, hour, sent):
    async with build(office, clock=clock_at(hour)) as server:
        running = RunningOrganism(server)
        conversation = await running.open()
        answer = await conversation.ask(running.make("Letter", "Dear Ada"), "clerk")
        assert answer.done is sent
        refused = [describe(record) for record in conversation.records("refused")]
        assert refused == ([] if sent else ["the guard OpeningHours denies it: post opens at 08:00"])


def test_the_page_shows_the_example():
    page = (PROJECT / "docs/guards.md").read_text()
    code = (PROJECT / "examples/hours/hours.py").read_text()
    assert code.partition('"""\n\n')[2] in page
    yaml = (PROJECT / YAML).read_text()
    assert yaml[yaml.index("guards:") :] in page


@pytest.mark.parametrize(
    ("right", "wrong", "told"),
    [
        ("listeners: [post]", "listeners: [psot]", 'organism.yaml:9: guards[0]: "psot" is no listener'),
        (
            '"18:00"',
            '"07:00"',
            "organism.yaml:9: guards[0]: opens at 08:00 and closes at 07:00, which is not later",
        ),
    ],
)
def test_a_typing_error_is_reported_with_its_line(tmp_path, right, wrong, told):
    path = tmp_path / "organism.yaml"
    path.write_text((PROJECT / YAML).read_text().replace(right, wrong))
    with pytest.raises(ConfigError, match=re.escape(told)):
        load(path, environ={}, project=PROJECT / "examples/hours")
