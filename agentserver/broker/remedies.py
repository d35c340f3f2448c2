"""The words for a broker that cannot be used: where its address is written, what is wrong, and the way out.

Owns which trouble has which remedy. Pure: refuses to connect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

    from agentserver.broker.address import BrokerAddress

_USERS: Final = "agentserver cluster permissions writes the users that an organism needs"
ROOM: Final = "give the account more room at the broker (max_file, max_mem, max_streams, max_consumers)"
"""The way out of what an account has no room for."""
_ENABLE: Final = "enable JetStream at the broker (jetstream { ... }), and for this account"
_NODES: Final = "say replicas: 1 where the broker has one node, or start all of its nodes"
DAMAGED: Final = (
    "what no server has written: remove the bucket AS_PRINCIPALS of this cluster at the broker, then agentserver"
    " principals restore FILE with a copy that a server has put aside"
)
"""The way out of principals that cannot be read."""

_REMEDIES: Final = (
    ("no server has written it so", DAMAGED),
    ("no broker at", "start the broker, or correct the url"),
    ("permissions refuse", _USERS),
    ("not supported in non-clustered mode", _NODES),
    ("no suitable peers", _NODES),
    ("jetstream not enabled", _ENABLE),
    ("no listener on $js.api", _ENABLE),
    ("maximum", ROOM),
    ("insufficient", ROOM),
    ("limit", ROOM),
    ("exceed", ROOM),
)
"""Words of a trouble in small letters, and what helps; the first that is met counts."""


def explained(text: str, address: BrokerAddress) -> str:
    """The words of a trouble with the place of the broker's address before them, and the way out behind them."""
    remedy = _remedy(text, address)
    before = f"{address.place}: " if address.place else ""
    return f"{before}{text} ({remedy})" if remedy else f"{before}{text}"


def lost(bucket: str, aside: Path) -> str:
    """The words for principals that the broker had, and has no more."""
    return (
        f"{bucket}: the broker has the principals of this cluster no more: somebody removed or changed what is in"
        f" it, and nobody is known by a token (the last edition is in {aside}: agentserver principals restore {aside}"
        " puts it back; agentserver principals add begins anew)"
    )


def nobody(bucket: str) -> str:
    """The words for principals that the broker does not have when a server begins."""
    return (
        f"{bucket}: the broker has no principals of this cluster, and nobody is known by a token (agentserver"
        " principals add NAME makes one; where there were some, agentserver principals restore FILE puts a kept file"
        " back)"
    )


def _remedy(text: str, address: BrokerAddress) -> str:
    if "does not take this user" in text:
        if address.credentials is None:
            return "the broker asks for a user: name a file with user:password as credentials"
        return f"correct {address.credentials}, or the broker's users; {_USERS}"
    small = text.lower()
    return next((remedy for words, remedy in _REMEDIES if words in small), "")
