"""Plans of workers: the frames, the wall and the limits of each listener with isolation."""

from __future__ import annotations

import os
import sys
import sysconfig
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import agentserver
from agentserver.worker import frames
from agentserver.worker.wall.raising import Wall, WallError, list_missing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from agentserver.config.keys.isolation import Isolation
    from agentserver.config.organism import BoundListener, Organism
    from agentserver.wire.envelope import Bounds

__all__ = ["WorkerPlan", "check_isolation", "list_readable", "list_system", "plan"]

_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache")
_ZONES = ("/usr/share/zoneinfo", "/etc/localtime")
_CERTIFICATES = ("/etc/ssl", "/etc/pki", "/usr/share/ca-certificates")
SLACK = 1 << 16


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """The workers of a listener and their limits.

    Args:
        setup: the first frame, without the scratch folder.
        wall: the wall, without the scratch folder.
        environment: the complete environment of a worker.
        warm: workers that are kept between calls.
        recycle: calls after which a worker is replaced.
        cpu: seconds of processor time of one call.
        disk: bytes below the scratch folder.
        scratch: whether there is such a folder.
    """

    setup: frames.SetupFrame
    wall: Wall
    environment: Mapping[str, str]
    warm: int
    recycle: int
    cpu: float
    disk: int
    scratch: bool

    def build_first(self, scratch: Path | None) -> frames.SetupFrame:
        """Build the first frame of a worker with this scratch folder."""
        values = {**asdict(self.wall), "scratch": scratch}
        return replace(self.setup, wall={name: _plain(value) for name, value in values.items()})


def _plain(value: object) -> object:
    """Convert paths to text, and tuples to lists."""
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, Path) else value


def check_isolation(listeners: Iterable[BoundListener]) -> None:
    """Check that this system can hold the listeners. Raises WallError."""
    for bound in listeners:
        assert bound.isolation is not None  # the caller has asked
        lacks = list_missing(ports=bool(bound.isolation.ports))
        if lacks:
            prefix = f"{bound.source}: {bound.listener.name} needs a wall, and this system lacks "
            raise WallError(prefix + "; ".join(lacks))


def list_readable(*, net: bool) -> tuple[Path, ...]:
    """List the existing paths that Python and installed packages need; never the project."""
    paths = sysconfig.get_paths()
    python = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    python |= {str(Path(sys.base_prefix) / "lib"), str(Path(agentserver.__file__).parent.resolve())}
    return (*(Path(path) for path in sorted(python) if os.path.exists(path)), *list_system(net=net))  # noqa: PTH110 - text in


def list_system(*, net: bool) -> tuple[Path, ...]:
    """List the existing system paths that any program needs: libraries, time zones, certificates."""
    paths = (*_LIBRARIES, *_ZONES, *(_CERTIFICATES if net else ()))
    return tuple(Path(path) for path in paths if os.path.exists(path))  # noqa: PTH110 - text in


def plan(organism: Organism, bound: BoundListener, bounds: Bounds) -> WorkerPlan:
    """Plan the workers of a listener with isolation."""
    isolation = bound.isolation
    assert isolation is not None  # nobody else is planned
    listener = bound.listener
    dotted = (isolation.handler, *isolation.payloads, *isolation.replies)
    optional = (isolation.settings_class, isolation.lifespan)
    own = _list_packages(organism.project, (*dotted, *(path for path in optional if path is not None)))
    wall = Wall(
        memory=isolation.memory,
        cpu=max(int(isolation.cpu * isolation.recycle), 1),
        files=isolation.files,
        disk=isolation.disk,
        read=(
            *list_readable(net=bool(isolation.ports)),
            *own,
            *(organism.project / path for path in isolation.read),
        ),
        list=(organism.project,),
        ports=isolation.ports,
    )
    return WorkerPlan(
        _make_setup(organism, listener.name, isolation, bounds),
        wall,
        {**isolation.environment, "MALLOC_ARENA_MAX": "1"},
        min(listener.concurrency, isolation.warm),
        isolation.recycle,
        isolation.cpu,
        isolation.disk,
        isolation.scratch,
    )


def _make_setup(organism: Organism, listener: str, isolation: Isolation, bounds: Bounds) -> frames.SetupFrame:
    limits = organism.limits
    return frames.SetupFrame(
        version=frames.VERSION,
        listener=listener,
        project=str(organism.project),
        handler=isolation.handler,
        payloads=tuple(isolation.payloads),
        replies=tuple(isolation.replies),
        settings_class=isolation.settings_class,
        settings=None if isolation.settings is None else dict(isolation.settings),
        lifespan=isolation.lifespan,
        storage=limits.storage,
        bounds={
            each.name: getattr(bounds, each.name)
            for each in fields(bounds)
            if each.init and each.name != "names"
        },
        wall={},
        longest=4 * (limits.payload + limits.storage) + SLACK,
    )


def _list_packages(project: Path, dotted: Iterable[str]) -> Iterator[Path]:
    """List the files and folders of the project that hold the first part of each dotted path."""
    for name in dict.fromkeys(path.split(".", maxsplit=1)[0] for path in dotted):
        for place in (project / name, project / f"{name}.py"):
            if place.exists():
                yield place
