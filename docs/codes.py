"""Writes docs/codes.md: each refusal and finding with its remedy, from the table of the server."""

from __future__ import annotations

from pathlib import Path

from agentserver.remedies import FAMILIES, REMEDIES

PAGE = Path(__file__).with_name("codes.md")

HEAD = """\
# Codes, with cause and remedy

Each code of the server, with its cause, the place to look and the remedy. This page is made from the table in
`agentserver/remedies` (`./run generate`), which `agentserver explain CODE` shows too; a test compares the table
with every code of the server. [Why was this refused?](refused.md) starts from a refusal that you have.
"""


def page() -> str:
    """The whole page."""
    lines = [HEAD]
    for family, title in FAMILIES.items():
        lines += [f"## {title}", "", "| code | what happened | look at | change |", "|---|---|---|---|"]
        for one in REMEDIES:
            if one.family == family:
                cells = (f"`{family}:{one.name}`", one.means, one.look, one.change)
                lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def texts() -> dict[Path, str]:
    """Return the page."""
    return {PAGE: page()}
