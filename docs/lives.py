"""Draws the section "Lives" of ARCHITECTURE.md from the tables of agentserver/core/decide/lives.py."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentserver.core.decide.lives import DELIVERY, THREAD

if TYPE_CHECKING:
    from collections.abc import Mapping

PAGE = Path(__file__).resolve().parent.parent / "ARCHITECTURE.md"
SECTION = re.compile(r"(?s)(<!-- lives: ./run generate -->\n).*?(<!-- end of lives -->)")


def drawing(table: Mapping[Any, Mapping[Any, Any]]) -> str:
    """Draw a table of transitions as Mermaid. Moves between the same two states share an arrow."""
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


def write_section(page: str) -> str:
    """Return the page with its section current. Raises ValueError for a page without the section."""
    section = f"A delivery:\n\n{drawing(DELIVERY)}\n\nA thread:\n\n{drawing(THREAD)}\n\n"
    if not SECTION.search(page):
        raise ValueError(f"{PAGE.name} has no section of lives between its two marks")
    return SECTION.sub(lambda found: f"{found[1]}\n{section}{found[2]}", page)


def texts() -> dict[Path, str]:
    """Return ARCHITECTURE.md with the section."""
    return {PAGE: write_section(PAGE.read_text("utf-8"))}
