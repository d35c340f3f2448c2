"""Recorded conversations as tests. No handler runs."""

from __future__ import annotations

import os
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from agentserver.config import Organism, load
from agentserver.history import export
from agentserver.history.replay import replay
from agentserver.rulebook import build_rules

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentserver.guards import Guard


def check_replay(
    path: str | Path,
    organism: str | Path | Organism = "config/organism.yaml",
    *,
    environ: Mapping[str, str] | None = None,
    guards: Mapping[str, Guard] = MappingProxyType({}),
) -> None:
    """Decide a recorded conversation again under the current organism.

    The handlers' answers are read from the file: the test covers the rules (peers, guards, schemas, limits),
    not the handlers.

    Args:
        path: of the file that ``agentserver replay CONVERSATION --save`` wrote.
        organism: its YAML file, or an organism made in code (``organism_of``).
        environ: values of ``${NAME}``; the process's environment when None.
        guards: as of ``agentserver.assembly.build``.

    Raises:
        AssertionError: names the step that is decided differently, without secrets of the organism.
        UnreadableError: the file is not a recorded conversation, or one of a later version.
        ConfigError: the organism cannot load.
    """
    recorded = export.load(Path(path).read_bytes())
    if not isinstance(organism, Organism):
        organism = load(Path(organism), environ=os.environ if environ is None else environ)
    difference = replay(recorded, build_rules(organism, guards))
    if difference is not None:
        raise AssertionError(organism.secrets.redact(f"{Path(path).name}: {difference}"))
