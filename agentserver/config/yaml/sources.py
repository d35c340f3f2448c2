"""The YAML files of one organism.

Owns ``include:``: which files are read, in which order, and which are refused. Refuses to know their meaning.
"""

from __future__ import annotations

import os.path
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentserver.config.yaml.document import read
from agentserver.config.yaml.interpolation import substitute
from agentserver.remedies.configuration import ConfigCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentserver.config.findings import Mistakes
    from agentserver.config.yaml.document import Document

MAX_FILES = 100
"""YAML files of one organism."""


@dataclass(slots=True)
class Sources:
    """Reads a file and all that it includes, depth first.

    Args:
        project: the directory that no file may lie outside of, absolute and without symbolic links.
        environ: what ``${NAME}`` refers to.
        report: takes the findings.
    """

    project: Path
    environ: Mapping[str, str]
    report: Mistakes
    documents: list[Document] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    values: list[str] = field(default_factory=list)

    def read(self, path: Path) -> None:
        """Read the main file, named by ``path``, and its includes."""
        self._read(path, path, ())

    def _read(self, path: Path, shown: Path, chain: tuple[Path, ...]) -> None:
        real = Path(os.path.realpath(path))
        self.files.append(real)
        raw = read(path, shown, self.report)
        if raw is None:
            return
        document, values = substitute(raw, self.environ, self.report)
        self.documents.append(document)
        self.values += values
        includes = document.data.get("include")
        if isinstance(includes, list):
            for i, name in enumerate(includes):
                self._include(document, i, name, (*chain, real))

    def _include(self, document: Document, index: int, name: Any, chain: tuple[Path, ...]) -> None:
        if not isinstance(name, str) or "\0" in name:
            return
        path = document.directory / name
        refusal = self._refusal(path, name, chain)
        if refusal:
            self.report.error(ConfigCode.FILE, document.where(("include", index)), refusal)
            return
        self._read(path, Path(os.path.normpath(document.file.parent / name)), chain)

    def _refusal(self, path: Path, name: str, chain: tuple[Path, ...]) -> str:
        """The reason why the file is not read, or empty."""
        real = Path(os.path.realpath(path))
        if Path(name).is_absolute() or not real.is_relative_to(self.project):
            return f'"{name}" is outside the project directory; includes are relative and stay inside'
        if real in chain:
            return f'"{name}" includes itself, directly or through others'
        if real in self.files:
            return f'"{name}" is included twice'
        if len(self.files) >= MAX_FILES:
            return f"more than {MAX_FILES} files"
        if not path.is_file():
            return f'there is no file "{name}" beside this one'
        return ""
