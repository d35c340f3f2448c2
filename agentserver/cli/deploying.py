"""``agentserver init --deploy``: the files by which a project becomes a service.

Owns which extras an organism needs while it is served, and which pins follow from them. The texts are in
scaffold/deploy/ beside this module, the pins in scaffold/pins.json (written by .ci/pins.py). Asks no package index.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from functools import partial
from importlib.resources import files
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from agentserver.config.keys.endpoints import LOCAL, HttpEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from agentserver.config import Organism

FOLDER: Final = Path("deploy")
LOCK: Final = FOLDER / "requirements.lock"
TOOLS: Final = frozenset({"agentserver.tools.fetch", "agentserver.tools.mail"})
"""Modules of ready-made tools that need the extra ``tools``."""

HEAD: Final = """\
# Every package that this project needs to be served, each file by its hash: {extras}.
# The versions are those with which agentserver was tested; for any Python from 3.11 to 3.13 on Linux.
# To renew it: install the new agentserver, then run agentserver init --deploy{options} in the project.
"""


def _tools(organism: Organism) -> bool:
    modules = {getattr(bound.handler, "__module__", "") for bound in organism.listeners}
    walled = {bound.isolation.handler.rpartition(".")[0] for bound in organism.listeners if bound.isolation}
    return not TOOLS.isdisjoint(modules | walled)


def _models(organism: Organism) -> bool:
    declared = organism.models
    return declared is not None and any(one.provider != "scripted" for one in declared.backends.values())


NEEDED: Final[dict[str, Callable[[Organism], bool]]] = {
    "agui": lambda organism: organism.door is not None and organism.door.agui,
    "handoff": lambda organism: organism.handoffs is not None,
    "http": lambda organism: organism.door is not None,
    "llm": _models,
    "mcp": lambda organism: bool(organism.mcp) or organism.serving is not None,
    "otel": lambda organism: organism.otel is not None and organism.otel.asked,
    "postgres": lambda organism: organism.engine is not None,
    "provenance": lambda organism: organism.provenance is not None,
    "tools": _tools,
}
"""The extras that a served organism may need, and when it does."""


class Pins(NamedTuple):
    """The tested version of each package.

    Args:
        extras: the packages that each extra asks for, such as ``xsdata[cli]``; those of the server itself under "".
        locks: the lines of a lock, by package.
        needs: the packages that each package asks for, alone and with an extra.
    """

    extras: dict[str, list[str]]
    locks: dict[str, str]
    needs: dict[str, list[str]]

    def following(self, wanted: Iterable[str]) -> set[str]:
        """Name these packages and all that they need."""
        waiting, seen = list(wanted), set[str]()
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                waiting += self.needs.get(name, ())
        return {name.partition("[")[0] for name in seen}


def tested() -> Pins:
    """Read the pins that this version of agentserver was tested with."""
    found = json.loads((files("agentserver.cli") / "scaffold" / "pins.json").read_text(encoding="utf-8"))
    return Pins(**found)


class Lock(NamedTuple):
    """The lock of a project.

    Args:
        text: of the file.
        missing: packages of the project's own for which there is no pin.
    """

    text: str
    missing: tuple[str, ...]


def extras_of(organism: Organism) -> frozenset[str]:
    """Name the extras that an organism needs while it is served."""
    return frozenset(extra for extra, needs in NEEDED.items() if needs(organism))


def lock(organism: Organism, more: Iterable[str]) -> Lock:
    """Pin what an organism needs to be served.

    Args:
        organism: loaded.
        more: further extras that its code needs.

    Raises:
        ValueError: an extra is unknown, or pyproject.toml cannot be used.
    """
    pins, asked = tested(), frozenset(more)
    for extra in asked - set(pins.extras):
        raise ValueError(
            f"there is no extra {extra}; there are: {', '.join(sorted(filter(None, pins.extras)))}"
        )
    extras = extras_of(organism) | asked
    own = [*_own(organism.project / "pyproject.toml")]
    wanted = {name for extra in ("", *extras) for name in pins.extras[extra]} | (set(own) & set(pins.locks))
    options = "".join(f" --extra {extra}" for extra in sorted(asked))
    head = HEAD.format(extras=", ".join(["agentserver", *sorted(extras)]), options=options)
    text = head + "".join(pins.locks[name] for name in sorted(pins.following(wanted)))
    return Lock(text, tuple(name for name in own if name not in pins.locks))


def _own(path: Path) -> Iterator[str]:
    """Name the packages that a project asks for itself, as package indexes spell them. Raises ValueError."""
    try:
        project = tomllib.loads(path.read_text(encoding="utf-8")).get("project", {})
    except OSError:
        return
    except ValueError as error:
        raise ValueError(f"{path}: is not TOML: {error}") from None
    if not isinstance(project, dict):
        raise ValueError(f"{path}: project: is not a table")  # noqa: TRY004 - of the file, not of a caller
    asked = project.get("dependencies", [])
    if not isinstance(asked, list):
        raise ValueError(f"{path}: project.dependencies: is not a list")  # noqa: TRY004 - as above
    for each in asked:
        found = re.match(r"\s*([A-Za-z0-9][\w.-]*)", each, re.ASCII) if isinstance(each, str) else None
        if found is None:
            raise ValueError(f"{path}: project.dependencies: {each!r} is not the name of a package")
        yield re.sub(r"[-_.]+", "-", found[1]).lower()


def texts(organism: Organism) -> Iterator[tuple[Path, str]]:
    """Give the unit, the Containerfile and the list of files that a build leaves out: path and text.

    Raises:
        ValueError: the organism binds no fixed port.
    """
    served = Path(os.path.realpath(organism.files[0])).relative_to(organism.project).as_posix()
    folder = files("agentserver.cli") / "scaffold" / "deploy"
    door = organism.door or HttpEntry()
    if not door.port:
        raise ValueError(
            f'{organism.files[0]}: http.bind: port 0 is another port at each start; name one, such as "{LOCAL}"'
        )
    container = {
        "@organism@": json.dumps(served),
        "@port@": str(door.port),
        "@check@": json.dumps(_check(door)),
    }
    for name, path, values in (
        ("agentserver.service.txt", FOLDER / "agentserver.service", {"@organism@": _systemd_word(served)}),
        ("Containerfile.txt", FOLDER / "Containerfile", container),
        ("dockerignore.txt", Path(".dockerignore"), {}),
    ):
        text = (folder / name).read_text(encoding="utf-8")
        given = {"@name@": organism.name, **values}
        yield path, re.sub("|".join(given), partial(_given, given), text)


def _given(values: Mapping[str, str], found: re.Match[str]) -> str:
    return values[found[0]]


def _check(door: HttpEntry) -> str:
    """Write the Python that fails unless the door of this machine is well.

    The certificate of the door is for the name that clients use, so that a check by address does not ask for it.
    """
    bound = ip_address(door.host)
    host = str(ip_address("::1" if bound.version == 6 else "127.0.0.1") if bound.is_unspecified else bound)  # noqa: PLR2004
    at = f"{f'[{host}]' if ':' in host else host}:{door.port}/healthz"
    if door.tls is None:
        return f"import urllib.request as r; r.urlopen('http://{at}', timeout=4)"
    context = "context=ssl._create_unverified_context()"
    return f"import ssl, urllib.request as r; r.urlopen('https://{at}', timeout=4, {context})"


def _systemd_word(text: str) -> str:
    """Quote one word of a command line of systemd."""
    text = text.replace("%", "%%").replace("$", "$$")
    return text if re.fullmatch(r"[\w./%$-]+", text) else json.dumps(text, ensure_ascii=False)
