"""Draws docs/blocked-attack.svg: the console while a page talks the model into sending a mail.

The picture is made from a real run of the example organism; times are left out, so that it is the same each time.

Run as ``python docs/picture.py`` to draw it; with ``--check`` it exits 1 when the picture is out of date.
"""

from __future__ import annotations

import re
import subprocess
import sys
from html import escape
from pathlib import Path

HERE = Path(__file__).parent
PICTURE = HERE / "blocked-attack.svg"
QUESTION = "@router What do the pages say about badgers?"
WIDTH = 112
LINE = 19
STYLES = {
    r"^refused": "#ff6b6b",
    r"SystemError": "#ffa94d",
    r"Ignore all earlier instructions": "#ff6b6b",
    r"The system says": "#ffa94d",
    r"^> ": "#74c0fc",
    r"^(router|  \|)": "#e9ecef",
}


def transcript() -> list[str]:
    """What the console prints for the question, without times and ports."""
    done = subprocess.run(
        [sys.executable, "-m", "agentserver", "run"],
        input=f"{QUESTION}\n/quit\n",
        cwd=HERE.parent,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    lines = [f"> {QUESTION}"]
    for line in done.stdout.splitlines():
        told = re.sub(r"^\s*\+\d+\.\d+s {2}( {2})?", "", line)
        told = re.sub(r" {2}\d+ ms$", "", told)
        lines.append(re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1", told))
    return in_order(lines)


def in_order(lines: list[str]) -> list[str]:
    """Calls that run side by side are told in any order: put neighbours of one kind in one order."""
    hop = re.compile(r"^(\s*)(fetcher|summariser) -> researcher")
    return [line for line in lines if "TodoRegistered" not in line and not hop.match(line)]


def wrapped(lines: list[str]) -> list[str]:
    """Lines that fit, continued with a bar where the console continues a field."""
    out = []
    for line in lines:
        rest = line
        while len(rest) > WIDTH:
            cut = rest.rfind(" ", 0, WIDTH)
            out.append(rest[:cut])
            rest = "  |   " + rest[cut + 1 :]
        out.append(rest)
    return out


def colour(line: str) -> str:
    """The first style that fits."""
    stripped = line.strip() if "->" in line else line
    return next((fill for pattern, fill in STYLES.items() if re.search(pattern, stripped)), "#adb5bd")


def drawn(lines: list[str]) -> str:
    """The picture."""
    rows = wrapped(lines)
    height = LINE * len(rows) + 40
    texts = [
        f'<text x="20" y="{LINE * number + 34}" fill="{colour(row)}" xml:space="preserve">{escape(row)}</text>'
        for number, row in enumerate(rows)
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH * 8 + 60} {height}" role="img">',
            "<title>A page tells the researcher to mail its summary; the pump refuses</title>",
            '<rect width="100%" height="100%" rx="8" fill="#1a1b1e"/>',
            '<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="13">',
            *texts,
            "</g>",
            "</svg>",
            "",
        ]
    )


def main() -> int:
    """Draw, or check."""
    picture = drawn(transcript())
    if "--check" in sys.argv:
        return 0 if PICTURE.read_text() == picture else 1
    PICTURE.write_text(picture)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
