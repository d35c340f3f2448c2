"""The files of a project whose change means a reload.

Owns which folders are watched, and for what. Refuses to know what a reload is. Folders are watched one by one and not
with all that lies below: an environment or a journal in the project's directory would be watched as well.
"""

from __future__ import annotations

import os.path
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

_LOOK = 1000
"""Milliseconds after which a watch that has begun looks for what was changed before it did."""

_WRITTEN = "out"
"""The folder for what an organism writes."""


def folders(organism: Organism) -> frozenset[Path]:
    """The folders that hold the organism's YAML, its code, and what lies one below those."""
    names = () if organism.modules is None else organism.modules.names
    modules = [sys.modules.get(name) for name in names]
    found = [getattr(each, "__file__", None) for each in modules]
    code = [Path(file) for file in found if file]
    own = {path.resolve().parent for path in (*organism.files, *code)} | {organism.project.resolve()}
    inside = {path for path in own if path.is_relative_to(organism.project.resolve())}
    return frozenset(own).union(*map(_below, inside))


def _newest(watched: frozenset[Path], meaning: Callable[[Change | None, str], bool]) -> float:
    """When a file was changed last that an organism may be made of, in seconds since 1970."""
    files = [path for folder in watched for path in folder.glob("*") if meaning(None, str(path))]
    return max(map(_changed, files), default=0.0)


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # it went meanwhile
        return 0.0


def _below(folder: Path) -> Iterator[Path]:
    try:
        found = [path for path in folder.iterdir() if path.is_dir()]
    except OSError:
        return
    for path in found:
        hidden = path.name.startswith((".", "__")) or path.name == _WRITTEN
        if not hidden and not (path / "pyvenv.cfg").exists():
            yield path


def meant(_change: Change | None, path: str) -> bool:
    """True for a file that an organism may be made of."""
    name = Path(path).name
    return Path(path).suffix in SUFFIXES and not name.startswith(".")


def sources(organism: Organism) -> Callable[[Change | None, str], bool]:
    """A filter of the files that this organism may be made of: the lock of its journal is written by each start."""
    from agentserver.engines.sqlite.lock import LOCK

    journal = None if organism.journal is None else os.path.realpath(organism.project / organism.journal.path)
    return lambda change, path: meant(change, path) and path != f"{journal}{LOCK}"


async def changes(organism: Callable[[], Organism], stop: anyio.Event, since: float) -> AsyncIterator[None]:
    """Something has changed in the folders of the present organism, until ``stop`` is set.

    Args:
        organism: gives the present one.
        stop: ends it.
        since: seconds since 1970 at which the organism was loaded at the earliest: a change between then and the begin
            of the watch is told too.

    Raises OSError when the system lets nothing be watched.
    """
    from anyio.to_thread import run_sync
    from watchfiles import awatch

    while not stop.is_set():
        watched, meaning = await run_sync(folders, organism()), await run_sync(sources, organism())
        found = awatch(
            *watched,
            watch_filter=meaning,
            step=_STEP,
            stop_event=stop,
            recursive=False,
            rust_timeout=_LOOK,
            yield_on_timeout=True,
        )
        looked = False
        async for changed in found:
            if looked and not changed:
                continue
            before, since, looked = since, max(since, await run_sync(_newest, watched, meaning)), True
            if not changed and since == before:
                continue
            yield
            if await run_sync(folders, organism()) != watched:
                break
