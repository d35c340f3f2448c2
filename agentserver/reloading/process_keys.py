"""Keys of processes and connections: of equal ones the one that runs may stay over a reload.

Owns what a walled worker and an MCP server's program depend on: their part of the configuration, and the files that
they may run. Refuses to start anything.
"""

from __future__ import annotations

import shutil
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

from agentserver.reloading.file_marks import mark_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from agentserver.payload.foreign.servers import McpServer
    from agentserver.worker.planning import WorkerPlan


def worker_key(project: Path, planned: WorkerPlan) -> str:
    """Say what the workers of a listener depend on: of the project they read what their wall lets them read."""
    from agentserver.worker.planning import readable

    pythons = {*readable(net=True)}
    own = [path for path in planned.wall.read if path.is_relative_to(project) and path not in pythons]
    return _key(repr(planned), own)


def connection_key(project: Path, server: McpServer) -> str:
    """Say what the connection to an MCP server depends on; of a program also its files in the project."""
    agreed = [(each.listener, each.agreed) for each in server.tools]
    said = (
        server.name,
        server.command,
        server.url,
        server.token,
        sorted(server.env.items()),
        server.restarts,
    )
    return _key(repr((project, said, server.isolation, agreed)), _program(project, server))


def _program(project: Path, server: McpServer) -> Iterator[Path]:
    """The files that a command names, and what lies beside those in the project: a script imports its neighbours."""
    for word in filter(None, server.command):
        module = word.partition(".")[0] or word
        for path in (project / word, project / module, project / f"{module}.py"):
            if "\0" in word or not path.exists():
                continue
            if path.is_relative_to(project):
                yield path if path.is_dir() else path.parent
            elif path.is_file():
                yield path
    found = shutil.which(server.command[0]) if server.command else None
    if found is not None:
        yield Path(found).resolve()
    if server.isolation is not None:
        yield from (project / path for path in server.isolation.read)


def _key(said: str, files: Iterable[Path]) -> str:
    """A digest, which shows none of the secrets in an environment. Where files cannot be marked it is equal to none."""
    mark = mark_files(files) or token_hex(16)
    return sha256(f"{said}\n{mark}".encode(errors="surrogateescape")).hexdigest()
