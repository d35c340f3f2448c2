"""Compare size and language of the package with an earlier commit, as a Markdown table.

    python .ci/house.py COMMIT

A room is a top folder of the package, as in words.py. Lines are lines of Python, of the project's own package and tests
alone; a request's files and functions are traced by each commit's own passage.py. Decision 288 has the table.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import figures
import words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = Path(__file__).resolve().parent.parent
TEST = re.compile(r"^\s*(?:async )?def test_", re.MULTILINE)
USAGE = 64


def count_lines(paths: Sequence[Path]) -> int:
    """Count the lines of files."""
    return sum(path.read_text("utf-8").count("\n") for path in paths)


def measure_rooms(root: Path) -> dict[str, tuple[int, int]]:
    """Count lines and statements of each room of a checkout."""
    found: dict[str, list[Path]] = {}
    for path in (root / "agentserver").rglob("*.py"):
        parts = path.relative_to(root / "agentserver").parts
        found.setdefault(parts[0] if parts[1:] else "(modules)", []).append(path)
    return {
        room: (
            count_lines(paths),
            sum(figures.statements(ast.parse(path.read_text("utf-8"))) for path in paths),
        )
        for room, paths in found.items()
    }


def trace_request(root: Path) -> Mapping[str, int]:
    """Trace one request and its reply with a checkout's own script; empty if that does not run here."""
    script = root / ".ci" / "passage.py"
    done = subprocess.run(
        [sys.executable, script], cwd=root, env={"PYTHONPATH": str(root)}, capture_output=True, check=False
    )
    return json.loads(done.stdout) if done.returncode == 0 else {}


def measure(root: Path) -> dict[str, str]:
    """Measure one checkout: the rows that both columns of the table have."""
    package = sorted((root / "agentserver").rglob("*.py"))
    tests = sorted((root / "tests").rglob("*.py"))
    prose = words.measure(package)
    request = trace_request(root)
    rooms = measure_rooms(root)
    rows = {
        "modules": f"{len(package):,}",
        "lines": f"{sum(lines for lines, _ in rooms.values()):,}",
        "statements": f"{sum(statements for _, statements in rooms.values()):,}",
        "phrases of a private English per 1,000 words": f"{prose.rate():.1f}",
        "names that are a bare participle or adverb": f"{prose.bare_names:.1f} %",
        "files that a request and its reply pass": str(request.get("files", "-")),
        "functions that a request and its reply pass": str(request.get("functions", "-")),
        "lines of tests": f"{count_lines(tests):,}",
        "test functions": f"{sum(len(TEST.findall(path.read_text('utf-8'))) for path in tests):,}",
    }
    return rows | {f"`{room}`": f"{lines:,} / {said:,}" for room, (lines, said) in sorted(rooms.items())}


def run_git(*args: str) -> None:
    """Run git in this checkout."""
    subprocess.run(["/usr/bin/env", "git", *args], cwd=ROOT, check=True)


def main(argv: Sequence[str]) -> int:
    """Print the table."""
    if len(argv) != 1:
        print(__doc__, file=sys.stderr)
        return USAGE
    with tempfile.TemporaryDirectory() as made:
        before = Path(made) / "before"
        run_git("worktree", "add", "--quiet", "--detach", str(before), argv[0])
        try:
            old, new = measure(before), measure(ROOT)
        finally:
            run_git("worktree", "remove", "--force", str(before))
    print(f"| | {argv[0]} | now |\n|---|---|---|")
    for row in dict.fromkeys([*old, *new]):
        print(f"| {row} | {old.get(row, '-')} | {new.get(row, '-')} |")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
