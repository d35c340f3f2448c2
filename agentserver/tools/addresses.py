"""Addresses of the network that a tool may connect to. Internal.

Owns the rule: the public internet, and the networks that an operator names. Refuses to resolve names and to connect.
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
"""Addresses whose last four bytes are those of version 4 that a router, or an old system, will connect to."""

_ISATAP: Final = 0x5EFE
"""The third quarter of an address that a machine of version 4 gave itself under any prefix (RFC 5214, 6.1)."""
_NOT_UNIVERSAL: Final = 0xFDFF_FFFF
"""All bits of that quarter but the one that says whether the address of version 4 is the only one of its kind."""

_ASSIGNED: Final = (IPv6Network("2000::/3"), IPv6Network("64:ff9b::/96"))
"""The public internet of version 6 (IANA, IPv6 Global Unicast Address Space), and its way to that of version 4. Beside
it lie the site-local addresses of old and other ways to version 4, which the library does not know for private."""


def parse_networks(named: Iterable[str]) -> tuple[Network, ...]:
    """The networks of an operator's list. Raises ValueError for one that is none, or has bits beside its prefix."""
    return tuple(ip_network(text) for text in named)


def is_allowed(text: str, more: Iterable[Network] = ()) -> bool:
    """True for an address of the public internet, and for one of these networks.

    One that stands for another (mapped, translated, tunnelled) is judged as the other too. Raises ValueError for what
    is no address.
    """
    address = ip_address(text)
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        return False
    more = tuple(more)
    return all(_public(one) or any(one in network for network in more) for one in _expand(address))


def _expand(address: Address) -> list[Address]:
    """The address and those of version 4 in it; of a mapped one these alone, since it is no other."""
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
