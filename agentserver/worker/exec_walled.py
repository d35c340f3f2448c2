"""Starts a program behind a wall: ``python -I -m agentserver.worker.exec_walled JSON``."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentserver.worker.wall.raising import Wall, WallError, raise_wall

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ProgramStart", "main"]

_PATHS = ("read", "list", "commands")


@dataclass(frozen=True, slots=True)
class ProgramStart:
    """The program that a process is to become.

    Args:
        wall: raised first.
        parent: the process id of the server.
        command: the program's path and its arguments.
        env: names of the variables that it is given.
    """

    wall: Wall
    parent: int
    command: tuple[str, ...]
    env: tuple[str, ...]

    def to_argument(self) -> str:
        """Encode it as one argument of a command line; there is no secret in it."""
        return json.dumps(asdict(self), default=str)


def read(text: str) -> ProgramStart:
    """Parse the text of ``to_argument``."""
    found: dict[str, Any] = json.loads(text)
    wall = found["wall"]
    scratch = wall["scratch"]
    made: dict[str, Any] = {
        **wall,
        **{name: tuple(map(Path, wall[name])) for name in _PATHS},
        "ports": tuple(wall["ports"]),
        "scratch": None if scratch is None else Path(scratch),
    }
    return ProgramStart(Wall(**made), found["parent"], tuple(found["command"]), tuple(found["env"]))


def main(argv: Sequence[str]) -> str:
    """Become what the only argument says; gives the reason why it does not."""
    start = read(argv[0])
    environment = {name: os.environ[name] for name in start.env}  # Python adds one for its own sake
    try:
        raise_wall(start.wall, start.parent)
        os.execve(start.command[0], start.command, environment)  # noqa: S606 - no shell is wanted
    except (WallError, OSError) as error:
        return f"not started: {error}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
