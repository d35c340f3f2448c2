"""The files of a project whose change means a reload.

Owns which folders are watched, and for what. Refuses to know what a reload is. Folders are watched one by one and not
with all that lies below: an environment or a journal in the project's directory would be watched as well.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    import anyio
    from watchfiles import Change

    from agentserver.config import Organism

SUFFIXES = frozenset({".py", ".yaml", ".yml", ".xsd", ".md", ".txt", ".lock"})
"""Of code, configuration, schemas, prompts and locks."""

_STEP = 100
"""Milliseconds without a further change after which those so far are told."""

_WRITTEN = "out"
"""The folder for what an organism writes."""


def folders(organism: Organism) -> frozenset[Path]:
    """The folders that hold the organism's YAML, its code, and what lies one below those."""
    modules = [sys.modules.get(name) for name in organism.modules]
    code = [Path(str(each.__file__)) for each in modules if each is not None and each.__file__]
    own = {path.resolve().parent for path in (*organism.files, *code)} | {organism.project.resolve()}
    inside = {path for path in own if path.is_relative_to(organism.project.resolve())}
    return frozenset(own).union(*map(_below, inside))


def _below(folder: Path) -> Iterator[Path]:
    try:
        found = [path for path in folder.iterdir() if path.is_dir()]
    except OSError:
        return
    for path in found:
        hidden = path.name.startswith((".", "__")) or path.name == _WRITTEN
        if not hidden and not (path / "pyvenv.cfg").exists():
            yield path


def meant(_change: Change, path: str) -> bool:
    """True for a file that an organism may be made of."""
    name = Path(path).name
    return Path(path).suffix in SUFFIXES and not name.startswith(".")


async def changes(organism: Callable[[], Organism], stop: anyio.Event) -> AsyncIterator[None]:
    """Something has changed in the folders of the present organism, until ``stop`` is set.

    Raises OSError when the system lets nothing be watched.
    """
    from anyio.to_thread import run_sync
    from watchfiles import awatch

    while not stop.is_set():
        watched = await run_sync(folders, organism())
        async for _ in awatch(*watched, watch_filter=meant, step=_STEP, stop_event=stop, recursive=False):
            yield
            if await run_sync(folders, organism()) != watched:
                break
