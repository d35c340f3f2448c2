"""The address of a broker, and the password with which one comes to it.

Owns the form of a file of credentials. Refuses to connect.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["BrokerAddress", "BrokerError", "credentials"]

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
    """

    url: str
    credentials: Path | None = None
    replicas: int = 1

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
