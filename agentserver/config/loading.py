"""The way from a path to an organism.

Owns the order of the steps. Refuses to know any of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from agentserver.config.findings import Finding
    from agentserver.config.organism import Organism


def project_directory(path: Path) -> Path:
    """The directory that dotted paths resolve from: the file's own, or its parent when that is named ``config``."""
    folder = path.resolve().parent
    return folder.parent if folder.name == "config" else folder


def load(path: Path, *, environ: Mapping[str, str], project: Path | None = None) -> Organism:
    """Read, check and bind an organism. Raises ConfigError with every mistake found.

    Args:
        path: of ``organism.yaml``.
        environ: what ``${NAME}`` refers to.
        project: overrides the project directory (see ``project_directory``).
    """
    raise NotImplementedError


def inspect(
    path: Path, *, environ: Mapping[str, str], project: Path | None = None
) -> tuple[Organism | None, tuple[Finding, ...]]:
    """Like ``load``, but give back every finding, warnings too; the organism is None when one is an error."""
    raise NotImplementedError
