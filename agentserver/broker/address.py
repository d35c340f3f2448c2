"""The address of a broker, the password with which one comes to it, and who vouches for it.

Owns the forms of those files. Refuses to connect.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl
    from pathlib import Path

__all__ = ["BrokerAddress", "BrokerError", "credentials", "trusted"]

MOST = 4096


class BrokerError(Exception):
    """The broker is not there, cannot be believed, or refuses; the message says which, in one line."""


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """A broker, or the nodes of one.

    Args:
        url: ``nats://`` or ``tls://`` with host and port; several are separated by commas.
        credentials: the file of user and password; None where the broker asks for neither.
        replicas: how many nodes keep what it is given.
        ca: the file of the certificates that vouch for the nodes; the system's where it is None.
        place: where this is written, as people find it: ``organism.yaml:3: engine.nats``; empty where it is not.
    """

    url: str
    credentials: Path | None = None
    replicas: int = 1
    ca: Path | None = None
    place: str = field(default="", compare=False)

    @property
    def encrypted(self) -> bool:
        """True when a node is to encrypt: then each has to."""
        return any(node.startswith("tls://") for node in self.nodes)

    @property
    def nodes(self) -> list[str]:
        """The address of each node."""
        return [each.strip() for each in self.url.split(",")]


def credentials(path: Path) -> tuple[str, str]:
    """User and password of a file with one line, ``user:password``. Reads it. Raises BrokerError."""
    try:
        with path.open("rb") as file:
            text = file.read(MOST + 1).decode()
    except OSError as error:
        raise BrokerError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BrokerError(f"{path}: is no text") from None
    if "-----BEGIN" in text:
        raise BrokerError(f"{path}: holds a key, and user:password on one line is understood")
    user, colon, password = text.strip().partition(":")
    if len(text) > MOST or "\n" in password or not (user and colon and password):
        raise BrokerError(f"{path}: is not one line of user:password")
    return user, password


def trusted(path: Path) -> ssl.SSLContext:
    """The certificates of a PEM file, for a client to hold a broker's against. Reads it. Raises BrokerError."""
    import ssl  # few come here, and it is slow to import

    try:
        return ssl.create_default_context(cafile=path)
    except ssl.SSLError:
        raise BrokerError(f"{path}: is no PEM file of certificates") from None
    except OSError as error:
        raise BrokerError(f"{path}: {error.strerror}") from None
