"""Settings of the door, and the Hosts and Origins that it accepts. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

LOCAL = ("127.0.0.1", "localhost", "[::1]")
"""The names of this machine, as a Host names them."""

CONNECTIONS = 2000
"""Connections at once, where the process may open as many files."""

MOST_WAIT = 99_999
"""Seconds that a request may name with wait=. Of these a message is waited for as long as the door allows."""

PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class DoorOptions:
    """The settings of the door.

    Args:
        hosts: what a request's Host may say.
        origins: what a request's Origin may say, where it says one.
        body: bytes of a request's body.
        patience: seconds for which a body may take to arrive.
        pause: seconds within which more of a body has to come.
        wait: most seconds for which a message may ask to be waited for.
        beat: seconds after which a silent stream of events is given a sign of life.
        streams: streams and waits that one principal may have open.
        held: streams and waits that may be open in all.
        present: requests that one principal may have at once, with those whose body is still to come.
        connections: connections at once.
        reserved: how many of them are for probes and operators.
        idle: seconds for which a connection may stay without a request.
        root: the prefix below which clients reach the door; empty without one.
        foreign: origins of pages whose scripts may call the door with a token (CORS).
        logs: whether each request is logged.
    """

    hosts: frozenset[str]
    origins: frozenset[str]
    body: int = 1_000_000
    patience: float = 30.0
    pause: float = 10.0
    wait: float = 60.0
    beat: float = 15.0
    streams: int = 64
    held: int = 1000
    present: int = 256
    connections: int = CONNECTIONS
    reserved: int = 128
    idle: float = 5.0
    root: str = ""
    foreign: frozenset[str] = frozenset()
    logs: bool = False

    def address(self, host: str) -> str:
        """Return the address of the door for a client with its own host name."""
        named = host.lower()
        bare = named.removesuffix(f":{PORTS['http']}").removesuffix(f":{PORTS['https']}")
        found = (each for each in sorted(self.origins) if urlsplit(each).netloc in (named, bare))
        return f"{next(found, '')}{self.root}" or "/"


def names(port: int, public: str = "", *, local: bool, secure: bool) -> tuple[frozenset[str], frozenset[str]]:
    """List the accepted hosts and origins.

    A foreign name that resolves to this machine is not accepted.

    Args:
        port: that is listened on.
        public: ``public_url``; empty without one.
        local: whether the door is on a loopback address.
        secure: whether it speaks TLS itself.
    """
    hosts: set[str] = set()
    origins: set[str] = set()
    if public:
        address = urlsplit(public)
        hosts |= {*_list_hosts(address.scheme, _add_brackets(address.hostname or ""), address.port)}
        origins |= {f"{address.scheme}://{host}" for host in _iter_hosts_of_origin(public)}
    if local:
        scheme = "https" if secure else "http"
        for name in LOCAL:
            hosts |= {*_list_hosts(scheme, name, port)}
            origins.add(f"{scheme}://{name}" + ("" if port == PORTS[scheme] else f":{port}"))
    return frozenset(hosts), frozenset(origins)


def _list_hosts(scheme: str, name: str, port: int | None) -> Iterator[str]:
    """List the spellings of a host and a port: the default port of the scheme may be omitted."""
    usual = PORTS[scheme]
    yield f"{name}:{port or usual}"
    if port in (None, usual):
        yield name


def _iter_hosts_of_origin(public: str) -> Iterator[str]:
    address = urlsplit(public)
    name = _add_brackets(address.hostname or "")
    yield name if address.port in (None, PORTS[address.scheme]) else f"{name}:{address.port}"


def _add_brackets(name: str) -> str:
    return f"[{name}]" if ":" in name else name
