"""Hostile handlers behind the wall: each act fails, and the server keeps serving others meanwhile."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from agentserver.contract import SystemError
from agentserver.testing import organism
from agentserver.worker.wall import landlock
from agentserver.worker.wall.raising import list_missing
from tests.helpers import helper, kill
from tests.machine import HANGS

LACKS = list_missing(ports=True)
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(bool(LACKS) and not os.environ.get("CI"), reason=f"no wall here: {'; '.join(LACKS)}"),
]
PROJECT = Path(__file__).parent / "project"
HELLO = "00000005" + b"hello".hex()

READS = {
    "the journal": "{project}/out/journal.sqlite",
    "the organism": "{project}/organism.yaml",
    "the keys": "{project}/.env",
    "the users": "/etc/passwd",
    "the server's environment": "/proc/{server}/environ",
    "the server's memory": "/proc/{server}/mem",
    "the server's files": "/proc/{server}/maps",
    "its own parent by name": "/proc/self/../{server}/cmdline",
}
"""Files that no handler may read."""

ACTS = {
    "inherited": "",
    "write": "{project}/words.py",
    "link": "{project}/organism.yaml",
    "symlink": "/etc/passwd",
    "chmod": "{project}/words.py",
    "rename": "{project}/words.py",
    "lock": "{project}/words.py",
    "tcp": "{port}",
    "udp": "",
    "named": "{named}",
    "abstract": "{abstract}",
    "datagrams": "",
    "names": "",
    "kill": "{server}",
    "everybody": "",
    "trace": "{server}",
    "memory_of": "{server}",
    "limits_of": "{server}",
    "fork": "",
    "clone3": "",
    "execute": "",
    "run": "",
    "ring": "",
    "nameless": "",
    "namespace": "",
    "x32": "",
    "hoard": "",
    "shared": "",
    "one_file": "",
    "twice": "",
}
"""What the kernel refuses."""

ENDED = {
    "nested": "",
    "threads": "",
    "die": "",
    "crash": "",
    "raw": HELLO,  # a frame that is none
    "raw endless": "ffffffff",
    "raw half": "0000",
    "another": "",  # a frame about another call
    "kept": "",  # more in its storage than a thread may keep
}
"""Acts that end the worker; the caller gets ``internal``."""

KEPT = ("many_files", "unlinked", "mapped", "unreadable", "passed")
"""Ways to keep more than ``disk``. The kernel refuses them where a process has a file system of its own; where it has
none, they end it."""
MEASURED = "AGENTSERVER_TEST_MEASURED"
"""Set where no process may have a file system of its own."""

LATE = frozenset({"raw half", "wait", "stubborn", "spin"})
"""Acts that do not end, or leave the server waiting for more: for a listener with little time."""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("walled")
    shutil.copytree(PROJECT, folder, dirs_exist_ok=True)
    (folder / ".env").write_text("KEY=canary")
    (folder / "out").mkdir()
    (folder / "out" / "journal.sqlite").write_text("kept")
    return folder


@pytest.fixture
async def bed(project):
    async with organism(project / "organism.yaml", environ={"REGION": "north"}, timeout=HANGS) as running:
        words = __import__("words")
        yield running, lambda act, about="", to="walled": running.ask(words.Try(act, about), to)


@pytest.fixture
def surroundings(project, tmp_path):
    """What a handler might reach: a port, two sockets, the server's process."""
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_UNIX) as named,
        socket.socket(socket.AF_UNIX) as abstract,
    ):
        named.bind(str(tmp_path / "socket"))
        named.listen()
        abstract.bind(f"\0agentserver-{os.getpid()}")
        abstract.listen()
        yield {
            "project": project,
            "server": os.getpid(),
            "port": tcp.getsockname()[1],
            "named": tmp_path / "socket",
            "abstract": f"agentserver-{os.getpid()}",
        }


async def again(ask, to="walled"):
    """What the next worker says. One that spoke twice is found out by the next call, and on a busy machine a start may
    take longer than a call may: the call after it has the worker.
    """
    failed = 0
    while isinstance(got := await ask("hello", "again", to), SystemError):
        failed += got.code != "timeout"
        assert failed < 4, got
    return got.text


def workers():
    """The processes of this one's workers."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            named = b"agentserver.worker" in (path.parent / "cmdline").read_bytes()
        except OSError:
            continue
        if named and parent == os.getpid():
            found.append(int(path.parent.name))
    return found


def test_the_wall_can_stand_where_tests_must_not_be_skipped():
    assert not LACKS, f"Landlock {landlock.version()} on Linux {os.uname().release} {os.uname().machine}"


async def test_acts_that_the_kernel_refuses(bed, surroundings):
    """One server for all: a worker with a refused act keeps running, and others notice nothing."""
    _, ask = bed
    asked = [("read", about) for about in READS.values()] + list(ACTS.items())
    for act, about in asked:
        got = await ask(act, about.format(**surroundings))
        assert getattr(got, "text", str(got)).startswith("refused: "), (act, about, got)
    assert (await ask("hello", "you")).text == "hello you"
    assert (await ask("hello", "you", "bystander")).text == "here you"


async def test_acts_that_end_the_worker(bed):
    _, ask = bed
    for act, about in ENDED.items():
        got = await ask(act.split()[0], about, "hasty" if act in LATE else "walled")
        assert isinstance(got, SystemError), (act, got)
        assert got.code == ("timeout" if act in LATE else "internal"), (act, got)
        assert await again(ask) == "hello again"


async def test_the_kernel_refuses_more_than_the_disk_limit_in_whatever_way_it_is_kept(bed, project):
    if os.environ.get(MEASURED):
        pytest.skip("measured here")
    _, ask = bed
    for act in KEPT:
        got = await ask(act)
        assert got.text.startswith("refused: OSError [Errno 28] No space left on device"), (act, got)
        assert await again(ask) == "hello again"
        assert (await ask("listed")).text == "DONE: []", "the folder is empty again, and its bytes are free"


def test_without_a_file_system_of_its_own_the_disk_limit_is_measured():
    """The same acts in a server that may make no namespaces, as in most containers."""
    here, program = Path(__file__), Path(__file__).parent / "commands" / "test_commands.py"
    command = [here.with_name("without_namespaces.py"), "-m", "pytest", "-q", "-n0", "-p", "no:randomly"]
    environ = {**os.environ, MEASURED: "1", "PYTHONPATH": str(here.parents[2])}
    for name in [each for each in os.environ if each.startswith("PYTEST_XDIST")]:
        del environ[name]
    done = subprocess.run(
        [sys.executable, *command, f"{here}::test_acts_that_are_measured", f"{program}::test_a_program_is_measured"],
        capture_output=True, text=True, env=environ, cwd=here.parents[2], timeout=HANGS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:]


async def test_acts_that_are_measured(bed, caplog):
    if not os.environ.get(MEASURED):
        pytest.skip("the kernel's limit here")
    _, ask = bed
    for act in (*KEPT, "nested"):
        got = await ask(act)
        if act == "passed":  # the message with the descriptor
            assert got.text.startswith("refused: PermissionError"), got
        else:
            assert isinstance(got, SystemError), (act, got)
            assert got.code == "internal", (act, got)
        assert await again(ask) == "hello again"
    said = [each.getMessage() for each in caplog.get_records("setup")]
    assert any(each.startswith("the disk limit of walled is measured") for each in said)


async def test_one_that_does_not_end_is_late_and_others_are_served(bed):
    _, ask = bed
    for act in LATE - ENDED.keys():
        got = await ask(act, to="hasty")
        assert isinstance(got, SystemError), (act, got)
        assert (
            got.code == "timeout" or act == "spin"
        )  # an endless loop may have had its processor time before
        assert await again(ask, "hasty") == "hello again"


async def test_a_forged_target_is_refused_as_of_any_handler(bed):
    _, ask = bed
    got = await ask("forge", "bystander")
    assert isinstance(got, SystemError)


async def test_a_model_is_asked_through_the_server(bed):
    _, ask = bed
    assert (await ask("ask", "ping")).text == "pong typed"
    assert (await ask("ask", "nobody")).text == "LookupError"


async def test_a_partial_answer_crosses_the_wall_as_an_error_and_on_demand_as_an_answer(bed):
    _, ask = bed
    assert (await ask("ask", "short")).text == "length True length The contract may be signed unl"


async def test_its_use_of_models_is_charged_to_the_request(bed):
    _, ask = bed
    got = await ask("spend")
    assert isinstance(got, SystemError)
    assert got.code == "budget"


async def test_progress_without_end_harms_nobody(bed):
    _, ask = bed
    assert (await ask("tell")).text == "told"


async def test_storage_goes_there_and_back(bed):
    _, ask = bed
    assert [(await ask("count")).text for _ in range(2)] == ["1 1", "2 2"]


async def test_a_class_of_the_handlers_own_is_stored_as_in_the_server(bed):
    _, ask = bed
    assert [(await ask("blob")).text for _ in range(3)] == ["1 [1]", "2 [1, 2]", "3 [1, 2, 3]"]


async def test_a_worker_that_dies_while_idle_costs_no_call(bed):
    _, ask = bed
    assert (await ask("hello", "you")).text == "hello you"
    for pid in (killed := set(workers())):
        os.kill(pid, signal.SIGKILL)
    while killed & set(workers()):  # noqa: ASYNC110 - on a busy machine it takes its time to die
        await anyio.sleep(0.01)
    await anyio.sleep(0.2)
    assert (await ask("hello", "again")).text == "hello again"


async def test_the_end_of_the_helper_that_enforces_limits_ends_its_listener_loudly_and_no_other(bed, caplog):
    """It died silently once, and nothing was enforced from then on."""
    _, ask = bed
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, "wait", "", "walled")
        await anyio.sleep(0.3)
        kill(helper("holds the calls of walled to their limits"))
    for _ in range(2):
        got = await ask("hello", "you")
        assert isinstance(got, SystemError)
        assert got.code == "internal"
    assert (await ask("hello", "you", "bystander")).text == "here you"
    assert (await ask("hello", "you", "hasty")).text == "hello you"
    said = "the helper that holds the calls of walled to their limits ended with Killed; its listener answers internal"
    assert said in [each.getMessage() for each in caplog.records]
