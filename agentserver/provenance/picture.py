"""The way of a value as a picture that can be shared: source, listeners between, sink.

Owns the drawing. Refuses to interpret: it draws what ``explain`` tells. Plain SVG without scripts or fonts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape

from agentserver.characters.table import unseen
from agentserver.provenance.verdict import Decision

if TYPE_CHECKING:
    from agentserver.provenance.verdict import Finding, Verdict

_WIDTH: Final = 230
_GAP: Final = 60
_ROW: Final = 130
_COLOURS: Final = {Decision.DENY: "#b3261e", Decision.ASK: "#9a6700", Decision.ALLOW: "#57606a"}


def picture(verdict: Verdict) -> str:
    """An SVG document: one row of boxes for each finding that has evidence."""
    rows = [finding for finding in verdict.findings if finding.evidence]
    boxes = [_boxes(verdict, finding) for finding in rows]
    width = max([len(row) for row in boxes], default=1) * (_WIDTH + _GAP) + 20
    height = 60 + _ROW * max(1, len(rows))
    colour = _COLOURS[verdict.decision]
    title = escape(f"{verdict.decision.value.upper()}: {verdict.call.sink}() at step {verdict.call.step}")
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="13" role="img">',
        f"<title>{title}</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="20" y="32" font-size="17" font-weight="bold" fill="{colour}">{title}</text>',
    ]
    for number, row in enumerate(boxes):
        parts += _draw(row, 60 + number * _ROW, colour)
    return "\n".join([*parts, "</svg>"])


def _boxes(verdict: Verdict, finding: Finding) -> list[tuple[str, str, str]]:
    """Head, middle and foot line of each box of a row."""
    evidence = finding.evidence
    assert evidence is not None
    origin = evidence.text.origin
    first = (f"{origin.source}()", f"field {origin.path or 'output'}", f"step {origin.step} · untrusted")
    hops = [
        (hop.listener, f"field {hop.path or 'output'}", f"step {hop.step} · passed on")
        for hop in evidence.hops
    ]
    via = f" · undone: {evidence.via}" if evidence.via else ""
    last = (
        f"{verdict.call.sink}({finding.path})",
        f"“{_cut(evidence.excerpt, 26)}”",
        f"{finding.role.value if finding.role else 'call'}{via}",
    )
    return [first, *hops, last]


def _draw(row: list[tuple[str, str, str]], top: int, colour: str) -> list[str]:
    parts = []
    for number, lines in enumerate(row):
        left = 20 + number * (_WIDTH + _GAP)
        last = number == len(row) - 1
        stroke = colour if last or number == 0 else "#57606a"
        frame = f'rx="8" fill="#f6f8fa" stroke="{stroke}" stroke-width="{2 if last else 1.5}"'
        parts.append(f'<rect x="{left}" y="{top}" width="{_WIDTH}" height="90" {frame}/>')
        for place, line in enumerate(lines):
            weight = ' font-weight="bold"' if place == 0 else ""
            text = escape(_cut(line, 30))
            parts.append(
                f'<text x="{left + 12}" y="{top + 26 + 24 * place}"{weight} fill="#1f2328">{text}</text>'
            )
        if not last:
            right = left + _WIDTH
            arrow = f"M{right + 6} {top + 45} h{_GAP - 20} m-8 -6 l8 6 l-8 6"
            parts.append(f'<path d="{arrow}" fill="none" stroke="{colour}" stroke-width="2"/>')
    return parts


def _cut(text: str, length: int) -> str:
    plain = "".join(" " if unseen(char) else char for char in text)
    return plain if len(plain) <= length else plain[: length - 1] + "…"
