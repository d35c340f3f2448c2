"""The section "Lives" of ARCHITECTURE.md, drawn from the tables of agentserver/core/decide/lives.py.

    python .ci/lives.py    writes the section again

A test compares the page with what this gives.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "ARCHITECTURE.md"
SECTION = re.compile(r"(?s)(<!-- lives: written by .ci/lives.py -->\n).*?(<!-- end of lives -->)")

if TYPE_CHECKING:
    from collections.abc import Mapping


def drawing(table: Mapping[Any, Mapping[Any, Any]]) -> str:
    """A mermaid drawing of a table of transitions. Moves between the same two states share an arrow."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for before, row in table.items():
        for move, after in row.items():
            for end in [after] if isinstance(after, str) else sorted(after):
                arrows.setdefault((before, end), []).append(move)
    ends = [state for state, row in table.items() if not row]
    lines = [f"    {_place(one)} --> {other}: {', '.join(moves)}" for (one, other), moves in arrows.items()]
    lines += [f"    {state} --> [*]" for state in ends]
    return "\n".join(["```mermaid", "stateDiagram-v2", *lines, "```"])


def _place(state: str) -> str:
    return "[*]" if state == "new" else state


def written(page: str) -> str:
    """The page with the section as the tables are now. Raises ValueError when the page has no such section."""
    sys.path.insert(0, str(ROOT))
    from agentserver.core.decide.lives import DELIVERY, THREAD

    told = f"A delivery:\n\n{drawing(DELIVERY)}\n\nA thread:\n\n{drawing(THREAD)}\n\n"
    if not SECTION.search(page):
        raise ValueError(f"{PAGE.name} has no section of lives between its two marks")
    return SECTION.sub(lambda found: f"{found[1]}\n{told}{found[2]}", page)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text("utf-8")), "utf-8")
