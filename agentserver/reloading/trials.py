"""Prepares trials of provenance policies by the rules of a running organism."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agentserver.config.findings import ConfigError
from agentserver.config.loading import read_policy_text, replace_policy
from agentserver.extras import install_hint, is_installed
from agentserver.history.backtest import PolicyTrial
from agentserver.payload.fields.field_table import PayloadError
from agentserver.rulebook import build_rules_on_trial

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentserver.config import Organism
    from agentserver.core.guard import Rules
    from agentserver.guards.base import Guard

SHOWN: Final = Path("policy")
"""Name of the policy in findings."""


def prepare_trial(
    organism: Organism, rules: Rules, guards: Mapping[str, Guard], policy: str, mode: str = ""
) -> PolicyTrial:
    """Prepare the trial of a policy, without importing code of the organism.

    Args:
        organism: as it runs.
        rules: those that it decides by.
        guards: of the program.
        policy: text of the policy file.
        mode: confirm or enforce; empty for that of the policy, or enforce if it is audit.

    Raises ValueError with a line for each mistake.
    """
    if not is_installed("provenance"):
        raise ValueError(f"a policy needs the extra provenance: {install_hint('provenance')}")
    from agentserver.config.lineage import PolicyText
    from agentserver.provenance.evidence.labels import Mode

    try:
        changed = replace_policy(organism, PolicyText(SHOWN, policy), os.environ)
        assert changed.provenance is not None
        declared = changed.provenance.policy.mode
        chosen = Mode(mode) if mode else declared.on_trial
        new = build_rules_on_trial(changed, chosen, guards)
        current = None if organism.provenance is None else build_rules_on_trial(organism, chosen, guards)
    except (ConfigError, PayloadError) as error:
        raise ValueError(str(error)) from None
    return PolicyTrial(str(chosen), rules, new, current)


def find_policy_text(organism: Organism) -> str:
    """Return the keys of ``provenance:`` as a policy file; empty without any, or if the files cannot be read."""
    try:
        return read_policy_text(organism, os.environ)
    except (ConfigError, OSError, UnicodeDecodeError):
        return ""
