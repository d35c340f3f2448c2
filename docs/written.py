"""Writes the files that are made from the code, or tells which of them are out of date.

Owns the option ``--check`` of the scripts beside it. Refuses to know what they write.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def written(texts: Mapping[Path, str]) -> int:
    """The exit status of a script: 0, or with ``--check`` 1 when a file is missing or out of date.

    Args:
        texts: what each file has to hold. It is written, or with ``--check`` compared.
    """
    if "--check" not in sys.argv:
        for place, text in texts.items():
            place.write_text(text, "utf-8")
        return 0
    stale = [place for place, text in texts.items() if not place.exists() or place.read_text("utf-8") != text]
    for place in stale:
        print(f"{place.name} is out of date")  # noqa: T201 - for the one who runs it
    return 1 if stale else 0
