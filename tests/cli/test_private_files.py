"""Files that hold what messages say are their owner's alone, from the first byte on."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from agentserver.cli import project
from tests.cli.journals import verb


@pytest.fixture
def shop(shop):
    before = os.umask(0)
    yield shop
    os.umask(before)


def mode(path):
    return stat.S_IMODE(Path(path).stat().st_mode)


def key():
    return json.loads(verb("conversations", "--json").splitlines()[0])["id"]


@pytest.mark.parametrize("form", [(), ("--json",), ("--html",)])
def test_a_trace_is_private(shop, form):
    Path("page").write_text("an older one")
    Path("page").chmod(0o666)
    verb("trace", key(), *form, "-o", "page")
    assert mode("page") == 0o600
    assert "older" not in Path("page").read_text()


def test_a_saved_conversation_is_private(shop):
    verb("replay", key(), "--save", "cases/case.json")
    assert mode("cases/case.json") == 0o600


def test_an_export_is_private(shop):
    verb("journal", "export", "copy.sqlite")
    verb("journal", "export", "one.sqlite", key())
    assert (mode("copy.sqlite"), mode("one.sqlite")) == (0o600, 0o600)


def test_a_link_is_not_followed(shop):
    Path("mine").write_text("mine")
    Path("page").symlink_to("mine")
    assert "is a symbolic link" in verb("trace", key(), "-o", "page", status=2)
    assert Path("mine").read_text() == "mine"


def test_the_file_is_never_wider(tmp_path, monkeypatch):
    seen = []
    replace = Path.replace

    def watch_replace(self, target):
        seen.append((mode(self), self.read_text()))
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", watch_replace)
    project.write(tmp_path / "f", "secret", private=True)
    assert seen == [(0o600, "secret")]
    assert [each.name for each in tmp_path.iterdir()] == ["f"]


def test_a_pipe_is_written_to(tmp_path):
    project.write(Path("/dev/null"), "gone", private=True)
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
