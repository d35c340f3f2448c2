"""Print the table of attacks: ``python -m tests.hostile [PART OF A NAME ...]``. Exit status 1 when one was not held off."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.hostile.harness import attacks, measure


def main(names: list[str]) -> int:
    """Run the attacks whose name holds one of ``names``, or all."""
    held = True
    for attack in attacks():
        if names and not any(name in attack.name for name in names):
            continue
        with tempfile.TemporaryDirectory(prefix="agentserver-hostile-") as home:
            row = measure(attack, Path(home))
        held = held and row.held
        print(row, flush=True)  # noqa: T201 - the table
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
