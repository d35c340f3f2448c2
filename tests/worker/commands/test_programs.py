"""What the kernel opens to start a program."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.worker.commands import _find_loader, list_parts
from agentserver.worker.exec_walled import ProgramStart, read
from agentserver.worker.wall.raising import Wall

PYTHON = Path(sys.executable)


def test_a_program_needs_its_loader_and_the_libraries_next_to_it(tmp_path):
    found = list_parts(PYTHON, tmp_path, None)
    assert found.run[0] == PYTHON
    assert any("ld-linux" in path.name for path in found.run)
    assert PYTHON.parent.parent / "lib" in found.read


def test_a_script_needs_its_interpreter_too_also_by_way_of_env(tmp_path):
    script = tmp_path / "tool"
    script.write_text(f"#!{PYTHON} -I\n")
    assert list_parts(script, tmp_path, None).run[:2] == (script, PYTHON)
    script.write_text("#!/usr/bin/env python\n")
    assert PYTHON in list_parts(script, tmp_path, str(PYTHON.parent)).run


def test_the_projects_own_folders_are_no_libraries(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "lib").mkdir()
    tool = tmp_path / "bin" / "tool"
    tool.write_text("#!/bin/sh\n")
    assert not any(path.is_relative_to(tmp_path) for path in list_parts(tool, tmp_path, None).read)


@pytest.mark.parametrize("depth", [6])
def test_scripts_that_run_scripts_come_to_an_end(tmp_path, depth):
    for number in range(depth):
        (tmp_path / str(number)).write_text(f"#!{tmp_path / str((number + 1) % depth)}\n")
    assert len(list_parts(tmp_path / "0", tmp_path, None).run) == 5


@given(st.binary(max_size=300))
def test_any_bytes_name_a_loader_or_none(data):
    for head in (data, b"\x7fELF\x02\x01" + data):
        assert _find_loader(head) is None or isinstance(_find_loader(head), Path)


def test_a_command_is_read_as_written():
    wall = Wall(1, None, 2, 3, (Path("/a"),), (), Path("/s"), (80,), (Path("/bin/x"),), fork=True)
    asked = ProgramStart(wall, 7, ("/bin/x", "a b", "ü"), ("PATH",))
    assert read(asked.to_argument()) == asked
