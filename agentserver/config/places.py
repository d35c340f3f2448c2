"""The project directory of an organism, and files that it has written: whether they stay there.

Owns which keys name one. Refuses to know what is written there.
"""

from __future__ import annotations

import os.path
from pathlib import Path
from typing import TYPE_CHECKING

from agentserver.config.keys.intents import HandoffsEntry
from agentserver.remedies.configuration import ConfigCode

if TYPE_CHECKING:
    from agentserver.config.code.userland import Project
    from agentserver.config.findings import Loc, Mistakes
    from agentserver.config.validation import Parsed

JOURNAL: Loc = ("journal", "path")
AUDIT: Loc = ("handoffs", "audit")


def project_directory(path: Path) -> Path:
    """The directory in which dotted paths resolve: the file's, or the parent of a directory named ``config``."""
    folder = Path(os.path.realpath(path.parent))
    return folder.parent if folder.name == "config" else folder


def shown_directory(path: Path, root: Path) -> Path:
    """The project directory in terms of the path that the caller gave."""
    return Path(os.path.normpath(path.parent / os.path.relpath(root, os.path.realpath(path.parent))))


def astray(root: Path, written: str) -> Path | None:
    """The real place of a relative path, if that is out of the project of this directory."""
    place = Path(os.path.realpath(root / written))  # no error for a loop of links
    return None if Path(written).is_absolute() or place.is_relative_to(root) else place


def misplaced(loc: Loc, written: str, place: Path, shown: Path) -> tuple[str, str]:
    """The reason why a path cannot be taken, and a likely correction."""
    return (
        f'"{written}" leads out of the project directory {shown}',
        f'"{loc[0]}.{loc[1]}: {place}", which is absolute, if that is what is meant',
    )


def check_places(main: Parsed, home: Project, report: Mistakes) -> None:
    """Refuse a relative path that leads out of the project, be it by ``..`` or by a symbolic link."""
    handoffs = _at(main.document.data, AUDIT, HandoffsEntry().audit)
    journal = None if main.journal is None else main.journal.path
    for loc, written in ((JOURNAL, journal), (AUDIT, handoffs)):
        place = astray(home.root, written) if isinstance(written, str) else None
        if place is not None:
            report.error(
                ConfigCode.FILE, main.document.where(loc), *misplaced(loc, str(written), place, home.shown)
            )


def _at(data: object, loc: Loc, default: str) -> object:
    for key in loc:
        data = data.get(key, default) if isinstance(data, dict) else default
    return data
