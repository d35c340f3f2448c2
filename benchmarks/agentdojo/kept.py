"""Results in files: one for each suite and variation, rewritten after each user task.

Owns the files and the digest of the code that they were measured with. Does not define the counts, and refuses to mix
what different code has measured.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.agentdojo.variations.forms import Form

ROOT = Path(__file__).parents[2]
MEASURING = ("agentserver/provenance", "benchmarks/agentdojo")
READ = {".py", ".yaml", ".txt", ".lock"}

Measured = dict[str, Any]
"""Of one task, form and column: ``counts`` and ``told``."""


def digest(part: str = "") -> str:
    """The code, words and policies that measure, as they are now, and the name of a part of the suites."""
    found = hashlib.sha256(part.encode())
    for folder in MEASURING:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in READ:
                found.update(f"{path.relative_to(ROOT)}\n".encode() + path.read_bytes())
    return found.hexdigest()[:16]


class ResultFolder:
    """The files of one folder."""

    def __init__(self, folder: Path, code: str) -> None:
        self._folder, self._code = folder, code
        self._files: dict[Path, dict[str, Any]] = {}

    def of(self, suite: str, task: str, form: Form, column: str) -> Measured | None:
        """Encode the result of a task in a form for a column, if there is one."""
        found: Measured | None = self._tasks(suite, form)[task].get(form.title, {}).get(column)
        return found

    def keep(self, suite: str, task: str, found: dict[Form, dict[str, Measured]]) -> None:
        """Writes results of a task, by form and column."""
        for form, columns in found.items():
            self._tasks(suite, form)[task].setdefault(form.title, {}).update(columns)
        for path in {self._path(suite, form) for form in found}:
            text = json.dumps({"code": self._code, "tasks": self._files[path]}, indent=1, ensure_ascii=False)
            whole = path.with_suffix(".new")
            whole.write_text(text, "utf-8")
            whole.replace(path)

    def _tasks(self, suite: str, form: Form) -> dict[str, Any]:
        path = self._path(suite, form)
        if path not in self._files:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._files[path] = defaultdict(dict, self._read(path) if path.exists() else {})
        return self._files[path]

    def _read(self, path: Path) -> dict[str, Any]:
        said = json.loads(path.read_text("utf-8"))
        if said["code"] != self._code:
            raise SystemExit(f"{path} was measured with other code: name another folder, or remove this one")
        found: dict[str, Any] = said["tasks"]
        return found

    def _path(self, suite: str, form: Form) -> Path:
        return self._folder / suite / f"{form.variation.replace(' ', '-')}.json"
