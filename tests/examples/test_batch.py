"""A batch of documents whose server is killed in the middle: resumed, each document is done once."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time

import pytest

from agentserver.core.records.audit import Event
from tests.cli.conftest import environment
from tests.examples.conftest import PROJECT

FOLDER = PROJECT / "examples/batch"
DOCUMENTS = 400  # of the thousand of the page: so many suffice to be killed among
WORDS = sum(number % 7 + 1 for number in range(1, DOCUMENTS + 1))
PAGE = (PROJECT / "docs/examples/batch.md").read_text("utf-8")
RUN = [sys.executable, "-m", "agentserver", "--log-level", "error", "run"]


@pytest.fixture
def batch(tmp_path):
    folder = tmp_path / "batch"
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("out", "__pycache__"))
    made = [sys.executable, "batch.py", str(DOCUMENTS)]
    subprocess.run(made, cwd=folder, env=environment(), check=True)
    return folder


def count_files(folder):
    return len([*(folder / "out" / "counts").glob("*.txt")])


def killed_in_the_middle(folder):
    """Run the batch until a third of it is done, and kill the server."""
    with subprocess.Popen(
        RUN, cwd=folder, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdin is not None
        server.stdin.write(f"@batch documents={DOCUMENTS}\n")
        server.stdin.flush()
        while count_files(folder) < DOCUMENTS / 3:
            time.sleep(0.02)
        server.kill()


def test_a_batch_that_was_killed_is_resumed_and_each_document_done_once(batch):
    killed_in_the_middle(batch)
    before = count_files(batch)
    assert DOCUMENTS / 3 <= before < DOCUMENTS
    resumed = subprocess.run(
        RUN,
        cwd=batch,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert resumed.returncode == 0, resumed.stderr
    assert f"  | done: {DOCUMENTS}\n  | words: {WORDS}\n  | failed: 0\n" in resumed.stdout
    assert count_files(batch) == DOCUMENTS
    again = batch / "out" / "again.txt"
    assert not again.exists() or len(again.read_text().splitlines()) <= 50  # no more than were in hand
    (conversation,) = re.findall(r"from conversation (\S+):", resumed.stdout)
    traced = subprocess.run(
        [*RUN[:-1], "trace", conversation, "--json"],
        cwd=batch, env=environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    records = [json.loads(line) for line in traced.stdout.splitlines()]
    sent = [record["root"] for record in records if record["event"] == Event.SENT]
    assert (sent.count("Count"), sent.count("WordCount")) == (DOCUMENTS, DOCUMENTS)
    assert [record["event"] for record in records].count(Event.RETRIED) >= DOCUMENTS // 50


def test_the_page_shows_the_code_and_the_organism():
    code, organism = (FOLDER / "batch.py").read_text("utf-8"), (FOLDER / "organism.yaml").read_text("utf-8")
    shown = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert shown
    assert all(block in code for block in shown)
    assert f"```yaml\n{organism}```" in PAGE


def test_it_is_small():
    assert len((FOLDER / "batch.py").read_text("utf-8").splitlines()) < 150
