"""Finding an organism's file."""

from __future__ import annotations

import os
from pathlib import Path

import click
import pytest

from agentserver.cli import project
from agentserver.config import glimpse


def a_folder(path):
    path.mkdir()


def a_pipe(path):
    os.mkfifo(path)


def a_loop(path):
    path.symlink_to(path.name)


def a_link_to_nothing(path):
    path.symlink_to("nothing")


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (a_folder, "config/organism.yaml exists, but is not a plain file"),
        (a_pipe, "config/organism.yaml exists, but is not a plain file"),
        (a_loop, "config/organism.yaml cannot be read: Too many levels of symbolic links"),
        (a_link_to_nothing, "config/organism.yaml is a symbolic link to a missing file"),
    ],
)
def test_a_file_of_another_kind_in_its_place_is_reported(tmp_path, monkeypatch, made, told):
    monkeypatch.chdir(tmp_path)
    Path("config").mkdir()
    made(Path("config/organism.yaml"))
    with pytest.raises(click.UsageError) as refused:
        project.find_organism_or_raise(None)
    assert refused.value.message == told


def test_a_file_in_a_folder_that_is_closed_is_not_said_to_be_missing(tmp_path, monkeypatch):
    (tmp_path / "config").write_text("")  # a folder that nobody may enter is no hindrance to root, a file is
    monkeypatch.chdir(tmp_path)
    with pytest.raises(click.UsageError, match=r"there is no config/organism\.yaml"):
        project.find_organism_or_raise(None)


def test_a_verb_reads_the_file_of_its_organism_once(command, here, monkeypatch):
    read, seen = glimpse.read_glimpse, []
    monkeypatch.setattr(glimpse, "read_glimpse", lambda path, *more: seen.append(path) or read(path, *more))
    command("approvals")
    assert seen == [Path("config/organism.yaml")]
