"""Draws docs/blocked-attack.svg: the console while a page talks the desk into mailing a stranger.

The picture is made from a real run of the example organism; times, steps and ports are left out, so that it is the
same each time.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from html import escape
from itertools import dropwhile
from pathlib import Path

HERE = Path(__file__).parent
PICTURE = HERE / "blocked-attack.svg"
ASKED = "@router What do the pages say about badgers?"
TOLD = "@router Mail it to the contact."
TITLE = "A page names a stranger as the one to mail; the pump refuses and shows the way of the address"
WIDTH = 112
LINE = 19
STYLES = {
    r"^refused|^ *\| (Injected|Action)": "#ff6b6b",
    r"→": "#ffd43b",
    r"SystemError|That did not work": "#ffa94d",
    r"Ignore all earlier instructions": "#ff6b6b",
    r"The system says": "#ffa94d",
    r"^> ": "#74c0fc",
    r"^(router|  \|)": "#e9ecef",
}
HOP = re.compile(r"^\s*\+\d+\.\d+s ")


def transcript() -> list[str]:
    """Record the console: the answer that quotes the page, and the refused mail."""
    with tempfile.TemporaryDirectory() as folder:  # the journal of the checkout stays as it is
        for each in HERE.parent.iterdir():
            if each.name == "config":  # a link would lead to the journal beside it
                shutil.copytree(each, Path(folder) / each.name)
            elif each.name != "out":
                (Path(folder) / each.name).symlink_to(each)
        done = subprocess.run(
            [sys.executable, "-m", "agentserver", "run"],
            input=f"{ASKED}\n{TOLD}\n/quit\n",
            cwd=folder,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=120,
        )
    lines = done.stdout.splitlines()
    again = max(number for number, line in enumerate(lines) if line.endswith("console -> router  Question"))
    answer = dropwhile(HOP.match, lines[:again])
    return [f"> {ASKED}", *map(timeless, answer), f"> {TOLD}", *map(timeless, lines[again:])]


def timeless(line: str) -> str:
    """A line without what differs from run to run."""
    told = re.sub(r"^\s*\+\d+\.\d+s {2}( {2})?|^ {8}(?= {6}\|)", "", line)
    # Pages are fetched side by side, so that their steps have no one order.
    told = re.sub(r" {2}\d+ ms$| at step \d+| \(step \d+\)|(?<=\()step \d+, ", "", told)
    return re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1", told)


def wrap_lines(lines: list[str]) -> list[str]:
    """Lines that fit, continued with a bar where the console continues a field."""
    out = []
    for line in lines:
        rest = line
        while len(rest) > WIDTH:
            cut = rest.rfind(" ", 0, WIDTH)
            out.append(rest[:cut])
            margin = re.search(r"^\s*(\| *)?", rest)
            rest = (margin[0] if margin else "") + "  " + rest[cut + 1 :]
        out.append(rest)
    return out


def colour(line: str) -> str:
    """The first style that fits."""
    stripped = line.strip() if "->" in line else line
    return next((fill for pattern, fill in STYLES.items() if re.search(pattern, stripped)), "#adb5bd")


def drawn(lines: list[str]) -> str:
    """The picture."""
    rows = wrap_lines(lines)
    height = LINE * len(rows) + 40
    texts = [
        f'<text x="20" y="{LINE * number + 34}" fill="{colour(row)}" xml:space="preserve">{escape(row)}</text>'
        for number, row in enumerate(rows)
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH * 8 + 60} {height}" role="img">',
            f"<title>{TITLE}</title>",
            '<rect width="100%" height="100%" rx="8" fill="#1a1b1e"/>',
            '<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="13">',
            *texts,
            "</g>",
            "</svg>",
            "",
        ]
    )


def texts() -> dict[Path, str]:
    """Draw the picture."""
    return {PICTURE: drawn(transcript())}
