"""``engine:`` in the YAML: one place for conversations, and nothing that is not understood."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentserver.config import ConfigError, load
from agentserver.config.glimpse import glimpse
from tests.config.conftest import CODE, ONE

URL = "nats://127.0.0.1:4222"
SAFE = "tls://127.0.0.1:4222"


@pytest.fixture
def home(project):
    project.write("listeners/greet.py", CODE)
    return project


def refused(home, text):
    path = home.write("organism.yaml", ONE + text)
    with pytest.raises(ConfigError) as found:
        load(path, environ={})
    return str(found.value)


def test_an_engine_stands_in_place_of_a_journal(home):
    path = home.write(
        "organism.yaml",
        f"{ONE}engine:\n  nats:\n    url: {SAFE}\n    credentials: b.secret\n    ca: /etc/ca\n",
    )
    organism = load(path, environ={})
    engine = organism.engine
    assert (engine.name, engine.address.url, engine.address.replicas) == (organism.name, SAFE, 3)
    assert engine.address.credentials == organism.project / "b.secret"
    assert engine.address.ca == Path("/etc/ca")
    assert not engine.relaxed
    assert organism.journal.path == "out/replicas/replica.db"
    seen = glimpse(path, {})
    assert seen.journal == organism.project / "out/replicas/replica.db"
    assert seen.engine == engine


def test_without_it_the_journal_stays_as_it_was(home):
    organism = load(home.write("organism.yaml", ONE), environ={})
    assert organism.engine is None
    assert organism.journal.path == "out/journal.sqlite"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            f"engine: {{nats: {{url: '{URL}'}}}}\njournal: {{path: j}}\n",
            "8: journal: journal: and engine: are both",
        ),
        (
            f"engine: {{nats: {{url: '{URL}'}}}}\njournal: none\n",
            "8: journal: journal: and engine: are both there",
        ),
        ("engine:\n", "7: engine: "),
        (f"engine: {{nats: {{url: '{URL}', ca: c.pem}}}}\n", "ca needs a url with tls://"),
        ("engine: {}\n", "engine.nats: "),
        ("engine: {nats: {}}\n", "engine.nats.url: "),
        ("engine: {nast: {}}\n", 'unknown key "nast" (did you mean "nats"?)'),
        (f"engine: {{nats: {{url: '{URL}', replica_s: 1}}}}\n", 'unknown key "replica_s"'),
        (
            "engine: {nats: {url: 'nats://ann:secret@h:1'}}\n",
            "user and password stand in the file of credentials",
        ),
        ("engine: {nats: {url: 'http://h:1'}}\n", "is nats:// or tls:// with a host"),
        (f"engine: {{nats: {{url: '{URL}', durability: maybe}}}}\n", "engine.nats.durability: "),
        (f"engine: {{nats: {{url: '{URL}', replicas: 2}}}}\n", "engine.nats.replicas: "),
        (f"engine: {{nats: {{url: '{URL}', replica: ../r}}}}\n", "leads out of the project directory"),
    ],
)
def test_what_is_not_understood_is_refused_with_its_place(home, text, said):
    assert said in refused(home, text)
