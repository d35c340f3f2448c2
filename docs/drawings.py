"""Draws the graphs in docs/pictures.md as Mermaid: pictures of the product, by the product.

The research desk runs once in a folder of its own while a page talks it into mailing a stranger. The desk, and its
journal after that, are drawn without times, steps and ids, so that a picture is the same each time.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from agentserver.core.blueprint import Listener
from agentserver.core.decide.lives import DELIVERY
from agentserver.graph import Graph, to_mermaid

if TYPE_CHECKING:
    from collections.abc import Iterable

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
PAGE = HERE / "pictures.md"
WORDS = "@router What do the pages say about badgers?\n@router Mail it to the contact.\n/quit\n"


class Drawn(NamedTuple):
    """Boxes and the arrows between them.

    Args:
        about: what the picture shows.
        boxes: their names, in order.
        arrows: from which to which.
        marked: the round boxes.
        notes: lines below.
    """

    about: str
    boxes: tuple[str, ...]
    arrows: frozenset[tuple[str, str]]
    marked: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()

    def text(self) -> str:
        """Write the Mermaid block, and the notes below it."""
        listeners = tuple(
            Listener(
                name,
                (),
                "",
                agent=name in self.marked,
                peers=frozenset(to for one, to in self.arrows if one == name),
            )
            for name in self.boxes
        )
        return fence(to_mermaid(Graph("research-desk", listeners, self.about)), self.notes)


def desk(folder: Path) -> list[dict[str, Any]]:
    """The records of the attacked conversation; the desk runs in this folder."""
    for name in ("config", "listeners", "examples/site"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    command(folder, "run", said=WORDS)
    listed = command(folder, "conversations", "--json").splitlines()
    return [
        json.loads(line)
        for line in command(folder, "trace", json.loads(listed[0])["id"], "--json").splitlines()
    ]


def command(folder: Path, *args: str, said: str = "") -> str:
    """What a command prints, run in the folder. An organism whose message was refused ends with 1."""
    done = subprocess.run(  # noqa: S603 - this interpreter
        [sys.executable, "-m", "agentserver", *args],
        input=said,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        timeout=120,
    )
    return done.stdout


def threads(records: list[dict[str, Any]]) -> Drawn:
    """The tree of calls of the first request: a thread for each, named by its listener."""
    first = next(one["request"] for one in records if one["request"])
    names: dict[str, str] = {}
    arrows: set[tuple[str, str]] = set()
    seen: Counter[str] = Counter()
    cause = ""
    for record in records:
        if record["request"] != first:
            continue
        if record["event"] == "received":
            names[record["thread"]] = cause = record["sender"]
            cause = record["thread"]
        elif record["event"] == "sent" and record["thread"] not in names:
            seen[record["to"]] += 1
            names[record["thread"]] = f"{record['to']} {seen[record['to']]}"
            arrows.add((names[cause], names[record["thread"]]))
        elif record["event"] in {"handled", "failed"}:
            cause = record["thread"]
    alone = {f"{name} 1": name for name, count in seen.items() if count == 1}
    renamed = frozenset((alone.get(one, one), alone.get(to, to)) for one, to in arrows)
    boxes = tuple(alone.get(name, name) for name in names.values())
    notes = (
        "each box is a thread: a call from the one before it; several calls of one listener are numbered",
    )
    return Drawn("the threads of one question", boxes, renamed, frozenset(), notes)


def delivery() -> Drawn:
    """The stages of a delivery."""
    arrows = frozenset(
        (str(before), str(after))
        for before, row in DELIVERY.items()
        for after in row.values()
        if before != after
    )
    ends = frozenset(str(stage) for stage, row in DELIVERY.items() if not row) | {"done", "dead"}
    notes = ("from being sent to its end; a failed delivery that is tried again stays at running",)
    return Drawn("the life of a delivery", tuple(map(str, DELIVERY)), arrows, ends, notes)


def lineage(records: list[dict[str, Any]]) -> Drawn:
    """Draw the path of the address from the page to the refused mail."""
    refused = next(one["detail"] for one in records if one["event"] == "refused" and one["code"] == "denied")
    finding = next(one for one in refused["findings"] if one["rule"] == "destination")
    trail = finding["trail"]
    stops = [f"{trail['source']}.{trail['field']}", *unlike(hop["listener"] for hop in trail["hops"])]
    stops[-1] = f"{refused['sink']}.{finding['argument']}"
    notes = (
        f"the words: {trail['excerpt']}; the rule: {finding['rule']}; the decision: {refused['decision']}",
    )
    ends = frozenset({stops[0], stops[-1]})
    return Drawn(
        "the lineage of a blocked mail",
        tuple(stops),
        frozenset(pairwise(stops)),
        ends,
        notes,
    )


def unlike(names: Iterable[str]) -> list[str]:
    """Number repeated names so that each is unique."""
    told: list[str] = []
    for name in names:
        told.append(name if name not in told else f"{name} again")
    return told


def fence(mermaid: str, notes: Iterable[str] = ()) -> str:
    """Write a Mermaid block with notes as a paragraph below it."""
    return "\n".join(
        ["", "```mermaid", mermaid.rstrip(), "```", "", *(f"{note[:1].upper()}{note[1:]}." for note in notes)]
    )


def pictures() -> dict[str, str]:
    """Draw each picture, by its name."""
    with tempfile.TemporaryDirectory(prefix="agentserver-drawings-") as folder:
        records = desk(Path(folder))
        flow = fence(command(Path(folder), "graph"))
    drawn = {"threads": threads(records), "delivery": delivery(), "lineage": lineage(records)}
    return {"flow": flow, **{name: one.text() for name, one in drawn.items()}}


def page() -> str:
    """Put the pictures into their page, between marks."""
    text = PAGE.read_text("utf-8")
    for name, picture in pictures().items():
        begin, end = f"<!-- {name}: written by docs/drawings.py -->\n", f"<!-- end of {name} -->"
        head, _, rest = text.partition(begin)
        text = f"{head}{begin}{picture.rstrip()}\n\n{end}{rest.partition(end)[2]}"
    return text


def texts() -> dict[Path, str]:
    """Draw all of them."""
    return {PAGE: page()}
