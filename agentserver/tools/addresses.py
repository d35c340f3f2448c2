"""Decides which network addresses a tool may connect to: the public internet and the operator's networks. Internal.

Resolves no names and opens no connections.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable
    from ipaddress import IPv4Network

    Address: TypeAlias = IPv4Address | IPv6Address
    Network: TypeAlias = IPv4Network | IPv6Network

_TRANSLATED: Final = (IPv6Network("64:ff9b::/96"), IPv6Network("::/96"))
"""IPv6 prefixes whose last four bytes are an IPv4 address that a router or an old system will connect to."""

_ISATAP: Final = 0x5EFE
"""The third quarter of an ISATAP address (RFC 5214, 6.1), which embeds IPv4 under any prefix."""
_NOT_UNIVERSAL: Final = 0xFDFF_FFFF
"""All bits of that quarter except the universal/local bit."""

_ASSIGNED: Final = (IPv6Network("2000::/3"), IPv6Network("64:ff9b::/96"))
"""The public IPv6 internet (IANA, IPv6 Global Unicast Address Space) and its gateway to IPv4.

Outside it are site-local addresses and further IPv4 gateways that the library does not report as private.
"""


def parse_networks(named: Iterable[str]) -> tuple[Network, ...]:
    """Parse an operator's list. Raises ValueError for an entry that is not a network, or has host bits set."""
    return tuple(ip_network(text) for text in named)


def is_allowed(text: str, more: Iterable[Network] = ()) -> bool:
    """Check whether an address belongs to the public internet or to one of these networks.

    An address that embeds another one (mapped, translated, tunnelled) must pass for both. Raises ValueError for
    anything that is not an address.
    """
    address = ip_address(text)
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        return False
    more = tuple(more)
    return all(_public(one) or any(one in network for network in more) for one in _expand(address))


def _expand(address: Address) -> list[Address]:
    """List the address and the IPv4 addresses embedded in it; for a mapped one only the latter."""
    if isinstance(address, IPv4Address):
        return [address]
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    found: list[Address] = [address]
    if address.sixtofour is not None:
        found.append(address.sixtofour)
    if address.teredo is not None:
        found += address.teredo
    low = int(address)
    if (
        any(address in network for network in _TRANSLATED) and low > 1
    ) or low >> 32 & _NOT_UNIVERSAL == _ISATAP:
        found.append(IPv4Address(low & 0xFFFFFFFF))
    return found


def _public(address: Address) -> bool:
    known = isinstance(address, IPv4Address) or any(address in network for network in _ASSIGNED)
    return known and address.is_global and not address.is_multicast
