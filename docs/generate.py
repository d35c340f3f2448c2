"""Writes every file that is derived from the code: the schema for editors, pages, pictures, the drawings of lives.

./run generate             # write what differs
./run generate --check     # name the files that are out of date, and exit with 1
./run generate keys codes  # only these parts
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT: Final = Path(__file__).resolve().parent.parent

PARTS: Final = (
    "schema",
    "keys",
    "codes",
    "commands",
    "contract",
    "payloads",
    "lives",
    "picture",
    "drawings",
)
"""Modules beside this one, in order: pages read the schema. Each has ``texts()``, the content of its files by path."""


def generate(parts: Sequence[str], *, check: bool) -> int:
    """Write the files of these parts, or compare them. Returns the exit status."""
    stale: list[Path] = []
    for part in parts:
        for place, text in importlib.import_module(part).texts().items():
            if place.exists() and place.read_text("utf-8") == text:
                continue
            stale.append(place)
            if not check:
                place.write_text(text, "utf-8")
    for place in stale:
        print(f"{place.relative_to(ROOT)} {'is out of date: ./run generate' if check else 'written'}")  # noqa: T201
    return int(check and bool(stale))


if __name__ == "__main__":
    named = [argument for argument in sys.argv[1:] if argument != "--check"]
    if unknown := set(named).difference(PARTS):
        raise SystemExit(f"unknown part: {', '.join(sorted(unknown))}; known: {', '.join(PARTS)}")
    raise SystemExit(generate(named or PARTS, check="--check" in sys.argv))
