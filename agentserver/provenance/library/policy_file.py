"""A policy's file for the library: this engine's keys, and those that agent-sleuth's documents write.

Owns the reading of the file and what each foreign key became. Refuses to know what a policy means.
"""

from __future__ import annotations

import logging
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from agentserver.provenance.policy.file import PolicyError, Written, policy_of, read_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentserver.provenance.policy.declarations import Policy

_log: Final = logging.getLogger("agentserver.provenance")

FOREIGN: Final[Mapping[str, str]] = MappingProxyType(
    {
        "untrusted_sources": "sources",
        "untrusted": "sources",
        "consequential_actions": "sinks",
        "consequential": "sinks",
        "destination_allowlist": "allow",
        "destinations": "allow",
        "allowlist": "allow",
        "destination_denylist": "deny",
        "denylist": "deny",
        "plan_mode": "plan",
    }
)
"""The keys of agent-sleuth, and those that they become."""
_PLANS: Final = MappingProxyType({"true": "required", "false": "optional"})


def load(path: Path | str) -> Policy:
    """The policy in a file; a note is logged of each key of agent-sleuth, and of what it became.

    Raises OSError, and PolicyError for what would otherwise be lost.
    """
    name = str(path)
    try:
        text = Path(path).read_text("utf-8")
    except UnicodeDecodeError:
        raise PolicyError(f"{name}: is not UTF-8 text") from None
    return policy_of(_translated(read_yaml(text, name), name), name)


def _translated(written: Written, name: str) -> Written:
    if not isinstance(written.values, dict):
        return written
    values: dict[str, Any] = {}
    lines = dict(written.lines)
    for key, value in written.values.items():
        known = FOREIGN.get(key, key)
        if known in values:
            raise PolicyError(
                f"{name}:{written.line((key,))}: {key} says the same as another key; write {known} once"
            )
        values[known] = _PLANS.get(str(value).lower(), value) if key == "plan_mode" else value
        if known != key:
            _log.warning("%s:%d: %s became %s", name, written.line((key,)), key, known)
            lines |= {(known, *loc[1:]): line for loc, line in written.lines.items() if loc[:1] == (key,)}
    return Written(values, lines)
