"""Handing work from one agent to another through a closed vocabulary.

The modules here are pure; ``edge`` and ``validation`` hold files, processes and the network. The library face for
code that knows no pump has its names here. They are imported when they are asked for, so that the pure modules stay
so.

Internal, but for the names that docs/reference.md lists.
"""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentserver.handoff.managed.orchestrate import extract_handoff, frame_handoff, sanitize_event
    from agentserver.handoff.validation.payloads import audit_handoff_chain, load_payload_schema, validate

__all__ = [
    "audit_handoff_chain",
    "extract_handoff",
    "frame_handoff",
    "load_payload_schema",
    "sanitize_event",
    "validate",
]

_FROM = MappingProxyType(
    {
        **dict.fromkeys(("extract_handoff", "frame_handoff", "sanitize_event"), "managed.orchestrate"),
        **dict.fromkeys(("audit_handoff_chain", "load_payload_schema", "validate"), "validation.payloads"),
    }
)


def __getattr__(name: str) -> Any:
    """Return a name of the library face."""
    if name not in _FROM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_FROM[name]}"), name)
