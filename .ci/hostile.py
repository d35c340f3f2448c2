"""The hostile suite as a table, with the kernel that it ran on: ``./run walls``.

Each row has an act, its outcome, and whether the wall promises that outcome. The acts come from the tests
(tests/worker/test_hostile.py, tests/worker/commands/test_commands.py). Without a wall it says so loudly; CI=true makes
that a failure. Exit status: 0 if every act failed as it must, 1 otherwise.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack, asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentserver import testing
from agentserver.contract import SystemError
from agentserver.worker.wall import landlock
from agentserver.worker.wall.raising import list_missing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
handlers: Any = import_module("tests.worker.test_hostile")
host: Any = import_module("tests.machine")
commands: Any = import_module("tests.worker.commands.test_commands")

MEASURED = "--measured"
Row = tuple[str, str, bool]


def make_context(stack: ExitStack, folder: Path) -> dict[str, Any]:
    """What an act may reach: a port, two sockets of the system, this process."""
    tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    named, abstract = (stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(2))
    named.bind(str(folder / "socket"))
    named.listen()
    abstract.bind(f"\0agentserver-table-{os.getpid()}")
    abstract.listen()
    return {
        "project": folder, "server": os.getpid(), "port": tcp.getsockname()[1],
        "named": folder / "socket", "abstract": f"agentserver-table-{os.getpid()}",
    }  # fmt: skip


def describe_outcome(answer: Any) -> str:
    """An answer on one short line."""
    text = f"{answer.code} to its caller" if isinstance(answer, SystemError) else str(answer)
    return " ".join(text.split())[:60]


@asynccontextmanager
async def project_in(folder: Path) -> AsyncIterator[tuple[Any, Any]]:
    """The organism of the tests, and its words."""
    shutil.copytree(handlers.PROJECT, folder, dirs_exist_ok=True)
    (folder / ".env").write_text("KEY=canary")
    (folder / "out").mkdir(exist_ok=True)
    (folder / "out" / "journal.sqlite").write_text("kept")
    environ = {"REGION": "north"}
    async with testing.organism(folder / "organism.yaml", environ=environ, timeout=60) as bed:
        yield bed, __import__("words")


async def of_disk(folder: Path) -> AsyncIterator[Row]:
    """Ways to keep 40 MB under ``disk: 12MB``; after each the handler is called again."""
    async with project_in(folder) as (bed, words):
        for act in handlers.KEPT:
            got = await bed.ask(words.Try(act, ""), "walled")
            ended = isinstance(got, SystemError) and got.code == "internal"
            again = await bed.ask(words.Try("hello", "you"), "walled")
            text = getattr(again, "text", str(again))
            shown = describe_outcome(got) if ended else describe_outcome(getattr(got, "text", got))
            yield act, shown, (ended or shown.startswith("refused: ")) and text == "hello you"


async def of_handlers(folder: Path, reached: dict[str, Any]) -> AsyncIterator[Row]:
    """Acts of a handler; after each of those that end its process it is called again."""
    async with project_in(folder) as (bed, words):
        reads = [(f"read {name}", "read", about) for name, about in handlers.READS.items()]
        for name, act, about in [*reads, *((act, act, about) for act, about in handlers.ACTS.items())]:
            got = await bed.ask(words.Try(act, about.format(**reached)), "walled")
            text = getattr(got, "text", got)
            yield name, describe_outcome(text), str(text).startswith("refused: ")
        for act, about in (dict.fromkeys(sorted(handlers.LATE), "") | handlers.ENDED).items():
            to = "hasty" if act in handlers.LATE else "walled"
            got = await bed.ask(words.Try(act.split()[0], about), to)
            served = await bed.ask(words.Try("hello", "you"), "bystander")
            yield act, describe_outcome(got), isinstance(got, SystemError) and served.text == "here you"
        got = await bed.ask(words.Try("forge", "bystander"), "walled")
        yield "a forged target", describe_outcome(got), isinstance(got, SystemError)


async def of_commands(folder: Path) -> AsyncIterator[Row]:
    """Acts of the program of an MCP server."""
    lock = await asyncio.to_thread(commands.organism_in, folder, "process", True)
    with socket.create_server(("127.0.0.1", 0)) as tcp:
        async with commands.run_command(folder, "process", lock) as run:
            for name, code in commands.REFUSED.items():
                got = await run(code.format(**commands.describe_server(tcp)))
                yield name, describe_outcome(got), str(got).startswith("refused: ")


def format_table(title: str, rows: list[Row]) -> Iterator[str]:
    """A table."""
    yield f"\n{title}"
    width = max(len(name) for name, _, _ in rows)
    for name, met, held in rows:
        yield f"  {'held  ' if held else 'BROKEN'}  {name:{width}}  {met}"


async def print_measured() -> int:
    """Print the table of a machine on which a walled process may have no file system of its own."""
    with tempfile.TemporaryDirectory() as folder:
        rows = [row async for row in of_disk(Path(folder))]
    print("\n".join(format_table("More than disk, without a file system of its own", rows)))
    return int(not all(held for _, _, held in rows))


async def main() -> int:
    """Print the tables."""
    with ExitStack() as stack:
        folders = [Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(2)]
        reached = make_context(stack, folders[0])
        tables = {
            "A handler with isolation: process": [row async for row in of_handlers(folders[0], reached)],
            "More than disk, with a file system of its own": [row async for row in of_disk(folders[0])],
            "The program of an MCP server with isolation: process": [row async for row in of_commands(folders[1])],
        }  # fmt: skip
    for title, rows in tables.items():
        print("\n".join(format_table(title, rows)))
    broken = sum(not held for rows in tables.values() for _, _, held in rows)
    acts = sum(map(len, tables.values()))
    print(f"\n{acts} acts, {broken} of them BROKEN" if broken else f"\n{acts} acts, each held")
    return int(bool(broken))


if __name__ == "__main__":
    logging.disable()
    machine = os.uname()
    print(f"Linux {machine.release} on {machine.machine}, Landlock ABI {landlock.version()}", flush=True)
    lacks = list_missing(ports=True, fork=True)
    if lacks:
        print(
            "*" * 80,
            f"NO WALL ON THIS MACHINE. It lacks {'; '.join(lacks)}.",
            "Nothing was tried.",
            "*" * 80,
            sep="\n",
        )
        sys.exit(int(host.in_ci()))
    if MEASURED in sys.argv:
        sys.exit(asyncio.run(print_measured()))
    status = asyncio.run(main())
    script = Path(handlers.__file__).with_name("without_namespaces.py")
    again = subprocess.run([sys.executable, script, __file__, MEASURED], check=False)
    sys.exit(max(status, again.returncode))
