"""The numbers of Landlock, held against a library that others keep."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import py_landlock
import pytest
from py_landlock import AccessFs, AccessNet, Scope, abi

from agentserver.worker.wall import landlock
from agentserver.worker.wall.landlock import Right
from agentserver.worker.wall.raising import list_missing


@pytest.mark.parametrize("name", [each.name for each in Right if each.name in AccessFs.__members__])
def test_each_right_has_the_number_that_the_library_has(name):
    assert Right[name] == AccessFs[name]


def test_the_library_names_the_rights_that_have_no_name_here():
    others = {AccessFs[name] for name in set(AccessFs.__members__) - {each.name for each in Right}}
    assert sorted(each.bit_length() - 1 for each in others) == [6, 9, 10, 11, 12]


@pytest.mark.parametrize("version", range(1, abi.MAX_KNOWN_ABI + 3))
def test_each_version_refuses_all_that_the_library_says_it_can(version):
    ruled = landlock.list_handled(version)
    assert ruled.files == abi.get_supported_fs(version)
    assert ruled.net == abi.get_supported_net(version)
    assert ruled.scoped == abi.get_supported_scope(version)


def test_ports_and_scopes_have_the_librarys_numbers():
    assert landlock.list_handled(abi.MIN_NET_ABI).net == AccessNet.BIND_TCP | AccessNet.CONNECT_TCP
    assert landlock.list_handled(abi.MIN_SCOPE_ABI).scoped == Scope.ABSTRACT_UNIX_SOCKET | Scope.SIGNAL
    assert landlock._CONNECT == AccessNet.CONNECT_TCP


def test_the_largest_structure_is_the_librarys():
    assert landlock.list_handled(abi.MAX_KNOWN_ABI).size == ctypes.sizeof(py_landlock.RulesetAttr)


@pytest.mark.skipif(bool(list_missing()), reason="no Landlock here")
def test_the_library_finds_the_same_version_on_this_kernel():
    assert py_landlock.get_abi_version() == landlock.version()


PROBE = """
import sys
from pathlib import Path
{start}
for path in sys.argv[1:]:
    try:
        print(len(list(Path(path).iterdir())) >= 0)
    except OSError as error:
        print(type(error).__name__)
"""
OURS = """
from agentserver.worker.wall.landlock import Grant, Right, restrict
restrict([Grant(Path(sys.argv[1]), Right.READ)])
"""
THEIRS = """
from py_landlock import AccessFs, Landlock
Landlock(strict=False).add_path_rule(sys.argv[1], access=AccessFs.READ_FILE | AccessFs.READ_DIR).apply()
"""


@pytest.mark.skipif(bool(list_missing()), reason="no Landlock here")
def test_the_kernel_treats_both_alike(tmp_path):
    (tmp_path / "granted").mkdir()
    (tmp_path / "other").mkdir()
    seen = []
    for start in (OURS, THEIRS):
        code = PROBE.format(start="import ctypes; ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)\n" + start)
        argv = [sys.executable, "-c", code, str(tmp_path / "granted"), str(tmp_path / "other"), "/etc"]
        seen.append(subprocess.run(argv, capture_output=True, text=True, check=False))
    assert seen[0].stdout.split() == ["True", "PermissionError", "PermissionError"], seen[0].stderr
    assert seen[0].stdout == seen[1].stdout, seen[1].stderr
