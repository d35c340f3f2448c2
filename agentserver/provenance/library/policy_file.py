"""Loads a policy file for the library, with this engine's keys or those of agent-sleuth."""

from __future__ import annotations

import logging
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from agentserver.provenance.policy.file import PolicyError, YamlDocument, build_policy, read_yaml

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
"""Keys of agent-sleuth and their names here."""
_PLANS: Final = MappingProxyType({"true": "required", "false": "optional"})


def load_policy(path: Path | str) -> Policy:
    """Load the policy in a file, and log each key of agent-sleuth with its name here.

    Raises:
        OSError: the file cannot be read.
        PolicyError: the file is invalid, or has two keys with one meaning.
    """
    name = str(path)
    try:
        text = Path(path).read_text("utf-8")
    except UnicodeDecodeError:
        raise PolicyError(f"{name}: is not UTF-8 text") from None
    return build_policy(_translate_keys(read_yaml(text, name), name), name)


def _translate_keys(written: YamlDocument, name: str) -> YamlDocument:
    if not isinstance(written.values, dict):
        return written
    values: dict[str, Any] = {}
    lines = dict(written.lines)
    for key, value in written.values.items():
        known = FOREIGN.get(key, key)
        if known in values:
            raise PolicyError(
                f"{name}:{written.line_of((key,))}: {key} repeats another key; write {known} once"
            )
        values[known] = _PLANS.get(str(value).lower(), value) if key == "plan_mode" else value
        if known != key:
            _log.warning("%s:%d: %s became %s", name, written.line_of((key,)), key, known)
            lines |= {(known, *loc[1:]): line for loc, line in written.lines.items() if loc[:1] == (key,)}
    return YamlDocument(values, lines)
