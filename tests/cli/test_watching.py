"""The folders that are watched, and for what."""

from __future__ import annotations

import time

import anyio
import pytest
import watchfiles  # noqa: F401 - its import looks where it is, which the loop of a test may not

from agentserver import config
from agentserver.cli.host import is_source, list_watched_folders, make_source_filter, watch_changes
from tests.cli.test_reloading import YAML, write
from tests.machine import HANGS


@pytest.mark.parametrize("name", ["a.py", "b.yaml", "prompts/c.md", "d.xsd"])
def test_sources_are_meant(name):
    assert is_source(None, f"/project/{name}")


@pytest.mark.parametrize(
    "name", ["journal.sqlite", "journal.sqlite-wal", ".#a.py", "a.py~", "4913", "x.jsonl"]
)
def test_files_written_by_a_server_or_an_editor_are_not_changes(name):
    assert not is_source(None, f"/project/{name}")


def load_folder(folder):
    write(folder)
    return config.load(folder / "organism.yaml", environ={}, separate=True)


def test_the_lock_of_the_journal_is_not_though_other_locks_are(tmp_path):
    """Each start writes it: a server with its journal in the same folder was reloaded by its own start."""
    write(tmp_path, yaml=f"{YAML}journal: {{path: kept.db}}\n")
    organism = config.load(tmp_path / "organism.yaml", environ={}, separate=True)
    assert not make_source_filter(organism)(None, f"{tmp_path}/kept.db.lock")
    assert make_source_filter(organism)(None, f"{tmp_path}/mcp.lock")
    assert make_source_filter(load_folder(tmp_path))(None, f"{tmp_path}/kept.db.lock")


def test_the_folders_are_those_of_the_organism_and_one_below(tmp_path):
    for name in ("prompts", "prompts/deeper", ".venv", "out", "__pycache__", "env"):
        (tmp_path / name).mkdir(exist_ok=True)
    (tmp_path / "env" / "pyvenv.cfg").touch()
    assert list_watched_folders(load_folder(tmp_path)) == {tmp_path, tmp_path / "prompts"}


@pytest.mark.anyio
async def test_changes_end_when_stopped(tmp_path):
    organism, stop, seen = await anyio.to_thread.run_sync(load_folder, tmp_path), anyio.Event(), []
    with anyio.fail_after(HANGS):
        async with anyio.create_task_group() as tasks:

            async def follow():
                async for _ in watch_changes(lambda: organism, stop, time.time()):
                    seen.append("change")
                    stop.set()

            tasks.start_soon(follow)
            while not seen:
                await anyio.sleep(0.05)
                await anyio.to_thread.run_sync(write, tmp_path, "new")
    assert seen == ["change"]


@pytest.mark.anyio
async def test_a_change_before_the_watch_began_is_reported(tmp_path):
    """It was lost: the organism had been loaded by then, and nothing was watched yet."""
    since, stop, seen = time.time(), anyio.Event(), []
    organism = await anyio.to_thread.run_sync(load_folder, tmp_path)
    with anyio.fail_after(HANGS):
        async for _ in watch_changes(lambda: organism, stop, since - 1):
            seen.append("change")
            stop.set()
    assert seen == ["change"]
