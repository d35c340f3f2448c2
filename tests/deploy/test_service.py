"""What docs/production.md says, done from a new project: it builds, and the unit's ExecStart serves.

The commands of the page run as they are written, with the system's folders below a temporary one. Three are stood in
for: `useradd` has nobody to add, `systemctl` starts the unit's own ExecStart or stops it, and `sudo -u` keeps the user.
"""

from __future__ import annotations

import configparser
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests import installed
from tests.installed import _each_command_has_its_guard  # noqa: F401 - for each test here
from tests.machine import HANGS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="units and containers are Linux's")

PAGE = (installed.ROOT / "docs" / "production.md").read_text("utf-8")
SYSTEM = ("/opt", "/var/lib", "/var/backups", "/etc/systemd")
FREE = 'http: {bind: "127.0.0.1:0"}'
"""Any free port in place of the one of the template, which another test may have."""


def commands(heading):
    """The lines of the blocks of shell below a heading of the page."""
    section = PAGE.partition(f"\n{heading}\n")[2].partition("\n#")[0]
    text = "\n".join(re.findall(r"(?s)```sh\n(.*?)```", section)).replace("\\\n", " ")
    return [line.partition("  #")[0].strip() for line in text.splitlines() if line.strip()]


def drop_capabilities():
    """The words that take every capability of root from a command; an ordinary user has none to lose."""
    if os.geteuid():
        return []
    tool = shutil.which("setpriv")
    return [tool, "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"] if tool else []


class Machine:
    """A machine below a folder: its commands, and the service that they start."""

    def __init__(self, root, desk, wheel):
        self.root, self.home, self.service = root, root / "home", None
        self.home.mkdir()
        for folder in ("opt", "var/lib", "var/backups", "etc/systemd/system"):
            (root / folder).mkdir(parents=True)
        self.outside = {
            "HOME": str(self.home),
            "PATH": f"{desk / 'bin'}:{os.environ['PATH']}",
            "LANG": "C.UTF-8",
        }
        self.outside |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        self.wheel = wheel

    def run(self, line, folder):
        """One line of the page."""
        if line.startswith("useradd "):
            return ""
        if line.startswith("systemctl "):
            self.stop() if " stop " in line else self.start()
            return ""
        line = (
            line.replace("sudo -u agentserver ", "")
            .replace("install -d -o agentserver ", "install -d ")
            .replace("PATH/TO/CHECKOUT", str(self.wheel))
        )
        done = subprocess.run(
            ["bash", "-euc", f"{self.within(line)}\npwd >{self.root}/pwd"],
            cwd=folder, env=self.outside, capture_output=True, text=True, timeout=installed.PATIENCE, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout

    def within(self, text):
        """The text, its folders of the system below this machine's."""
        return re.sub(
            rf"(?<![\w.])({'|'.join(SYSTEM)})(?=/|\s|$)", lambda found: f"{self.root}{found[1]}", text
        )

    def type(self, heading):
        """Every line below a heading, in one shell after another, each where the one before it ended."""
        folder = self.home
        for line in commands(heading):
            yield line, self.run(line, folder)
            folder = Path((self.root / "pwd").read_text().strip()) if (self.root / "pwd").exists() else folder

    def unit(self):
        parser = configparser.ConfigParser(interpolation=None)
        parser.optionxform = str
        parser.read_string((self.root / "etc/systemd/system/agentserver.service").read_text("utf-8"))
        return parser["Service"]

    def start(self):
        """Run the unit's ExecStart where it says, with a project that cannot be written to."""
        unit = self.unit()
        place = Path(self.within(unit["WorkingDirectory"]))
        out = self.root / "var/lib" / unit["StateDirectory"]
        out.mkdir(mode=int(unit["StateDirectoryMode"], 8), exist_ok=True)
        for path in [place, *place.rglob("*")]:
            if not path.is_relative_to(out):
                path.chmod(path.stat().st_mode & ~0o222)
        self.service = subprocess.Popen(
            [*drop_capabilities(), *shlex.split(self.within(unit["ExecStart"]))],
            cwd=place, env={"PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}, umask=int(unit["UMask"], 8),
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def stop(self):
        """End the service as systemd does; returns what it printed last."""
        self.service.send_signal(signal.SIGTERM)
        _, printed = self.service.communicate(timeout=HANGS)
        assert self.service.returncode == 0, printed
        return printed

    def which(self, command):
        """A command of the one who works on the project."""
        return shutil.which(command, path=self.outside["PATH"])

    def address(self):
        """The address, which is the first line that the service prints."""
        line = self.service.stderr.readline()
        assert line.startswith("http://"), line + self.service.stderr.read()
        return line.strip()


@pytest.fixture
def machine(tmp_path, tmp_path_factory):
    folder = installed.shared_folder(tmp_path_factory)
    made = Machine(tmp_path, installed.environment(folder, "client"), installed.build_wheel(folder))
    yield made
    if made.service is not None:
        made.service.kill()
        made.service.communicate()


def reply_status(url):
    with urllib.request.urlopen(url, timeout=HANGS) as reply:
        return reply.status


def test_the_page_leads_from_init_to_a_service_that_answers_is_reloaded_backed_up_and_restored(machine):
    printed = {}
    for line, said in machine.type("## From nothing to a running service"):
        printed[line] = said
        if "init desk" in line:
            organism = machine.home / "desk/config/organism.yaml"
            text = organism.read_text("utf-8")
            organism.write_text(text.replace('http: {bind: "127.0.0.1:8420"}', FREE), "utf-8")
            assert FREE in organism.read_text("utf-8")
    assert machine.service is not None, "the page starts no service"
    url = machine.address()
    assert reply_status(f"{url}/healthz") == 200
    token = next(said for line, said in printed.items() if "principals add" in line).split()[-1]

    send = ["agentserver", "send", '{"name": "Ada"}', "--to", "greeter", "--url", url]
    done = subprocess.run(
        [machine.which(send[0]), *send[1:]],
        cwd=machine.home, env={**machine.outside, "AGENTSERVER_TOKEN": token}, capture_output=True, text=True,
        timeout=HANGS, check=False,
    )  # fmt: skip
    assert "GOOD DAY, ADA!" in done.stdout, done.stderr

    machine.service.send_signal(signal.SIGHUP)
    assert any(line.endswith(" is reloaded\n") for line in machine.service.stderr)
    printed = "".join(text for _, text in machine.type("## Backup"))
    assert "nothing was altered" in printed
    assert "journal.sqlite.before-restore-1" in printed
    assert reply_status(f"{machine.address()}/healthz") == 200
    assert machine.stop() == ""
