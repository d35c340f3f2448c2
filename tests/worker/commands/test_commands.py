"""Programs of MCP servers behind the wall: hostile acts fail, and permitted ones work."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from agentserver import config, testing
from agentserver.config.code.tools import lock_path
from agentserver.config.glimpse import read_servers
from agentserver.contract import SystemError
from agentserver.mcp.client.connection import ask
from agentserver.mcp.client.process import plain
from agentserver.payload.foreign.lock import CommandIsolation, McpServer, write_lock
from agentserver.worker import commands
from agentserver.worker.commands import open_launch
from agentserver.worker.wall.raising import WallError, list_missing
from tests.machine import HANGS
from tests.mcp.client.projects import alive, wait_for_file

LACKS = list_missing(ports=True, fork=True)
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(bool(LACKS) and not os.environ.get("CI"), reason=f"no wall here: {'; '.join(LACKS)}"),
]
DOES = Path(__file__).with_name("does.py")
TRUE = Path("/bin/true").resolve()
OUTSIDE = Path(tempfile.gettempdir()) / f"from-behind-the-wall-{os.getpid()}"

REFUSED = {
    "the journal": "print(open('out/journal.sqlite').read())",
    "the organism": "print(open('organism.yaml').read())",
    "the keys": "print(open('.env').read())",
    "the users": "print(open('/etc/passwd').read())",
    "the server's environment": "print(open('/proc/{server}/environ').read())",
    "its folder": "print(os.listdir('.'))",
    "write": "open('does.py', 'w')",
    "write elsewhere": "open({outside!r}, 'w')",
    "link": "os.link('organism.yaml', os.environ['TMPDIR'] + '/linked')",
    "chmod": "os.chmod('does.py', 0o777)",
    "tcp": "import socket; socket.create_connection(('127.0.0.1', {port}))",
    "udp": "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
    "named": "import socket; socket.socket(socket.AF_UNIX)",
    "names": "import socket; socket.getaddrinfo('example.org', 80)",
    "kill": "os.kill({server}, 15)",
    "everybody": "os.kill(-1, 15)",
    "the group of the server": "os.killpg(os.getpgid({server}), 15)",
    "fork": "os.fork()",
    "spawn": "os.posix_spawn({true!r}, ['true'], {{}})",
    "run": "import subprocess; subprocess.run([{true!r}])",
    "become another": "os.execv({true!r}, ['true'])",
    "become one of its own": "p = os.environ['TMPDIR'] + '/p'; f = os.open(p, os.O_CREAT | os.O_WRONLY, 0o777); "
    "os.write(f, b'#!' + sys.executable.encode() + b' -V\\n'); os.close(f); os.execv(p, ['p'])",
    "become by descriptor": "os.execve(os.open(sys.executable, os.O_RDONLY), ['true'], {{}})",
    "a session of its own": "os.setsid()",
    "memory": "bytearray(4 << 30)",
    "one file": "open(os.environ['TMPDIR'] + '/big', 'wb').write(bytes(10**8))",
    "limits": "import resource; resource.prlimit({server}, resource.RLIMIT_NOFILE, (9, 9))",
    "trace": "import ctypes as c; e = c.CDLL(None, use_errno=True).ptrace(16, {server}, 0, 0); "
    "e < 0 and (_ for _ in ()).throw(OSError('ptrace'))",
}
"""What the kernel refuses a program that may neither fork nor start others."""

FORKING = (
    "fork",
    "spawn",
    "run",
    "a session of its own",
    "everybody",
    "kill",
    "the users",
    "tcp",
    "become another",
)


@pytest.fixture(scope="module")
def lock(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lock")
    return organism_in(folder, "process", lock=True)


def organism_in(folder, isolation, lock=None):
    """An organism whose one tool is that of ``does``, with its lock."""
    shutil.copy(DOES, folder / "does.py")
    (folder / ".env").write_text("KEY=canary")
    (folder / "out").mkdir(exist_ok=True)
    (folder / "out" / "journal.sqlite").write_text("kept")
    command = json.dumps([sys.executable, "does.py"])
    held = f", isolation: {isolation}" if isolation else ""
    (folder / "organism.yaml").write_text(
        "name: desk\njournal: none\nlisteners: []\nprovenance: {mode: audit}\n"
        f"mcp:\n  - {{name: far, command: {command}{held}, tools: [{{name: run, trust: source}}]}}\n"
    )
    path = folder / lock_path("far")
    path.parent.mkdir(parents=True, exist_ok=True)
    if lock is True:
        found, directory, mistakes = read_servers(folder / "organism.yaml", {})
        assert mistakes == ()
        lock = write_lock(ask(found[0], directory, open_launch).lock)
    path.write_text(lock)
    return lock


@asynccontextmanager
async def run_command(folder, isolation, lock):
    await anyio.to_thread.run_sync(organism_in, folder, isolation, lock)
    loaded = await anyio.to_thread.run_sync(lambda: config.load(folder / "organism.yaml", environ={}))
    (payload,) = loaded.listeners[0].listener.payloads
    async with testing.organism(loaded, timeout=HANGS, real_tools=True) as bed:

        async def run(code):
            got = await bed.ask(payload(code=code), to="far.run")
            return got if isinstance(got, SystemError) else "".join(got.text)

        yield run


def describe_server(tcp):
    return {"server": os.getpid(), "port": tcp.getsockname()[1], "true": str(TRUE), "outside": str(OUTSIDE)}


async def test_acts_that_a_program_is_refused(tmp_path, lock):
    with socket.create_server(("127.0.0.1", 0)) as tcp:
        async with run_command(tmp_path, "process", lock) as run:
            for act, code in REFUSED.items():
                got = await run(code.format(**describe_server(tcp)))
                assert str(got).startswith("refused: "), (act, got)
            assert await run("print('still here')") == "still here\n"
    assert not OUTSIDE.exists()


async def test_acts_that_a_forking_program_is_refused_all_the_same(tmp_path, lock):
    with socket.create_server(("127.0.0.1", 0)) as tcp:
        async with run_command(tmp_path, "{fork: true}", lock) as run:
            assert await run("p = os.fork()\nif not p: os._exit(7)\nprint(os.waitpid(p, 0)[1] >> 8)") == "7\n"
            for act in FORKING[1:]:
                if act == "everybody":
                    continue  # it would end itself, and nobody else: the next one
                got = await run(REFUSED[act].format(**describe_server(tcp)))
                assert str(got).startswith("refused: "), (act, got)
            code = "p = os.fork()\nif not p:\n try: os.kill({server}, 15)\n except OSError: os._exit(3)\n os._exit(0)\n"
            got = await run((code + "print(os.waitpid(p, 0)[1] >> 8)").format(**describe_server(tcp)))
            assert got == "3\n", "a child is behind the same wall"


async def test_permissions_given_to_a_program_work(tmp_path, lock):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "page").write_text("shown")
    with socket.create_server(("127.0.0.1", 0)) as tcp:
        given = f"{{fork: true, programs: ['{TRUE}'], read: [data], ports: [{tcp.getsockname()[1]}]}}"
        async with run_command(tmp_path, given, lock) as run:
            assert await run("print(open('data/page').read())") == "shown\n"
            assert await run(REFUSED["tcp"].format(**describe_server(tcp))) == "done"
            assert await run(f"import subprocess; print(subprocess.run([{str(TRUE)!r}]).returncode)") == "0\n"
            assert await run("open(os.environ['TMPDIR'] + '/x', 'w').write('y')") == "done"
            assert await run("import sqlite3, threading, ssl; print(len(os.environ))") in {"1\n", "2\n"}


async def test_one_that_writes_without_end_is_refused_by_the_kernel(tmp_path, lock):
    async with run_command(tmp_path, "{disk: 2MB}", lock) as run:
        code = (
            "import time\nfor n in range(40):\n"
            " open(os.environ['TMPDIR'] + f'/{n}', 'wb').write(bytes(10**6)); time.sleep(0.05)\n"
            "time.sleep(1000)"
        )
        assert await run(code) == "refused: OSError [Errno 28] No space left on device"
        assert await run("print(len(os.listdir(os.environ['TMPDIR'])))") == "3\n"


MEASURED = {
    "nested": "p = os.open(os.environ['TMPDIR'], 0)\nfor n in range(1500):\n"
    " os.mkdir('d', dir_fd=p); q = os.open('d', 0, dir_fd=p); os.close(p); p = q\n",
    "unlinked by a child": "if os.fork():\n pass\nelse:\n for n in range(5):\n"
    "  p = os.environ['TMPDIR'] + '/f'; f = open(p, 'wb', buffering=0); f.write(bytes(10**6)); os.unlink(p)\n"
    "  globals()[str(n)] = f\n import time; time.sleep(1000)\n",
}
"""What ends a program whose folder the server measures."""


async def test_a_program_is_measured(tmp_path, lock, caplog):
    """Run by tests/worker/test_hostile.py where no process may have a file system of its own."""
    if not os.environ.get("AGENTSERVER_TEST_MEASURED"):
        pytest.skip("the kernel's limit here")
    async with run_command(tmp_path, "{disk: 2MB, fork: true}", lock) as run:
        for act, code in MEASURED.items():
            got = await run(code + "import time\ntime.sleep(1000)")
            assert isinstance(got, SystemError), (act, got)
            assert await run("print(os.listdir(os.environ['TMPDIR']))") == "[]\n"
    assert "far is ended: it nested folders more than 64 deep" in caplog.messages
    assert "far is ended: it wrote more than 2000000 bytes" in caplog.messages


async def test_an_ended_command_leaves_no_folder_and_no_process(tmp_path, lock):
    async with run_command(tmp_path, "{fork: true}", lock) as run:
        left = await run(
            "import time\np = os.fork()\nif not p: time.sleep(60)\nprint(os.environ['TMPDIR'], p)"
        )
        folder, group = left.split()
    assert not await anyio.Path(folder).exists()
    await wait_for_file(lambda: not alive(int(group)))


async def test_a_system_without_a_wall_starts_nothing(tmp_path, lock, monkeypatch):
    monkeypatch.setattr(commands, "list_missing", lambda **_: ("Landlock 6 or later: this kernel has none",))
    with pytest.raises(WallError, match="far needs a wall, and this system lacks Landlock 6"):
        async with run_command(tmp_path, "process", lock):
            pass


async def test_no_program_that_asks_for_a_wall_is_started_without(tmp_path):
    server = McpServer("far", ("true",), None, None, {}, 1, (), CommandIsolation())
    with pytest.raises(RuntimeError, match="not started without its wall"):
        async with plain(server, tmp_path):
            pass


@pytest.mark.parametrize(
    ("isolation", "said"),
    [
        ("{read: [..]}", '".." is nothing inside the project directory'),
        ("{read: [.]}", '"." is the whole project'),
        ("{ports: [0]}", "must be at least 1"),
        ("thread", 'is "process", or what the process may use'),
        ("{warm: 2}", "warm"),
    ],
)
def test_invalid_keys_are_refused_at_their_line(tmp_path, lock, isolation, said):
    organism_in(tmp_path, isolation, lock)
    with pytest.raises(config.ConfigError) as refused:
        config.load(tmp_path / "organism.yaml", environ={})
    (finding,) = refused.value.findings
    assert said in str(finding)
    assert finding.line == 6
