"""Files that the organism has written: whether they stay in the project.

Owns which keys name one. Refuses to know what is written there.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from agentserver.config.intents import HandoffsEntry

if TYPE_CHECKING:
    from agentserver.config.findings import Loc, Report
    from agentserver.config.userland import Project
    from agentserver.config.validation import Parsed

JOURNAL: Loc = ("journal", "path")
AUDIT: Loc = ("handoffs", "audit")


def check_places(main: Parsed, home: Project, report: Report) -> None:
    """Refuse a relative path that leads out of the project, be it by ``..`` or by a symbolic link."""
    handoffs = _at(main.document.data, AUDIT, HandoffsEntry().audit)
    journal = None if main.journal is None else main.journal.path
    for loc, written in ((JOURNAL, journal), (AUDIT, handoffs)):
        if not isinstance(written, str) or Path(written).is_absolute():
            continue
        real = (home.root / written).resolve()
        if not real.is_relative_to(home.root):
            report.error(
                main.document.where(loc),
                f'"{written}" leads out of the project directory {home.shown}',
                f'"{loc[0]}.{loc[1]}: {real}", which is absolute, if that is what is meant',
            )


def _at(data: object, loc: Loc, default: str) -> object:
    for key in loc:
        data = data.get(key, default) if isinstance(data, dict) else default
    return data
