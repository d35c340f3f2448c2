"""Compare size and language of the package with an earlier commit, as a Markdown table, or draw its rooms.

    python .ci/house.py COMMIT
    python .ci/house.py --draw [COMMIT]

The drawing is a Mermaid flowchart of the folders, each with its lines, and of the imports between them, at a commit or
now. An import is left out if others lead to the same room (there are no cycles), and so are single files.

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
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import figures
import words

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

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


def iter_imported(tree: ast.Module) -> Iterator[str]:
    """Yield the names of the package that a file imports, without that of the package itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level and node.module is not None:
            whole = node.module == "agentserver"
            yield from (f"agentserver.{name.name}" for name in node.names) if whole else (node.module,)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


def find_imports(root: Path) -> dict[str, set[str]]:
    """Find the folders that each folder of the package imports, for types or at run time."""
    package = root / "agentserver"
    folders = {path.parent.name for path in package.glob("*/__init__.py")}
    found: dict[str, set[str]] = {}
    for folder in sorted(folders):
        trees = (ast.parse(path.read_text("utf-8")) for path in (package / folder).rglob("*.py"))
        names = (name.split(".") for tree in trees for name in iter_imported(tree))
        rooms = {parts[1] for parts in names if parts[0] == "agentserver" and parts[1:]}
        found[folder] = rooms & folders - {folder}
    return found


def find_reachable(imports: Mapping[str, Collection[str]], room: str) -> set[str]:
    """Find the rooms to which the imports of one lead."""
    return {one for other in imports[room] for one in (other, *find_reachable(imports, other))}


def draw(root: Path) -> str:
    """Draw the rooms of a checkout and their imports."""
    imports, sizes = find_imports(root), measure_rooms(root)
    lines = [f'    {room}["{room}<br>{sizes[room][0]:,}"]' for room in imports]
    for room, imported in imports.items():
        implied = {one for other in imported for one in find_reachable(imports, other)}
        lines += [f"    {room} --> {other}" for other in sorted(imported - implied)]
    return "\n".join(["```mermaid", "flowchart TD", *lines, "```"])


def run_git(*args: str) -> None:
    """Run git in this checkout."""
    subprocess.run(["/usr/bin/env", "git", *args], cwd=ROOT, check=True)


@contextmanager
def check_out(commit: str) -> Iterator[Path]:
    """Check a commit out into a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory() as made:
        before = Path(made) / "before"
        run_git("worktree", "add", "--quiet", "--detach", str(before), commit)
        try:
            yield before
        finally:
            run_git("worktree", "remove", "--force", str(before))


def main(argv: Sequence[str]) -> int:
    """Print the table or the drawing."""
    match argv:
        case ["--draw"]:
            print(draw(ROOT))
        case ["--draw", commit]:
            with check_out(commit) as before:
                print(draw(before))
        case [commit]:
            with check_out(commit) as before:
                old, new = measure(before), measure(ROOT)
            print(f"| | {commit} | now |\n|---|---|---|")
            for row in dict.fromkeys([*old, *new]):
                print(f"| {row} | {old.get(row, '-')} | {new.get(row, '-')} |")
        case _:
            print(__doc__, file=sys.stderr)
            return USAGE
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
