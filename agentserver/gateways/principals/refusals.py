"""The rate at which requests of one address may be refused.

Owns the buckets of addresses, and that they are bounded. Refuses to know what a request is.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final

from agentserver.gateways.principals.callers import Rate

REFUSALS: Final = Rate(120, "m")
"""Refused requests of one address."""

ADDRESSES: Final = 10_000
"""Addresses with a bucket of their own. Others share one: a stranger may have more than memory holds."""

_NETWORK: Final = 64
"""Bits of an IPv6 address that name a network: one customer has the rest to itself."""


class RefusedAddresses:
    """The buckets of addresses. One that has not come until its bucket was full again has none."""

    def __init__(self) -> None:
        self._full: dict[str, float] = {}

    def take(self, address: str, now: float) -> float:
        """Take a refused request out of the bucket of an address. Gives 0.0, or the seconds until there is one."""
        name = _network(address)
        if name not in self._full and len(self._full) >= ADDRESSES:
            self._full = {name: full for name, full in self._full.items() if full > now}
            name = name if len(self._full) < ADDRESSES else ""
        wait, self._full[name] = REFUSALS.taken(self._full.get(name, now), now)
        return wait

    def __len__(self) -> int:
        """Addresses with a bucket."""
        return len(self._full)


def _network(address: str) -> str:
    """Name the network of an address: of IPv6 its first half."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:  # of a socket without addresses
        return address
    return str(found) if found.version == 4 else f"{int(found) >> _NETWORK:x}"  # noqa: PLR2004
