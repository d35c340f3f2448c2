"""Passwords of the broker's users: drawn, kept in files of their own, and as the broker's configuration has them.

Owns the files. The broker is told bcrypt of each password, which the C library's ``crypt`` makes: Python has none of
its own any more. Refuses to print a password.
"""

from __future__ import annotations

import ctypes
import os
import secrets
from ctypes.util import find_library
from hashlib import blake2b
from typing import TYPE_CHECKING

from agentserver.broker.address import BrokerError, credentials

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["bcrypt", "kept"]

_ALPHABET = "./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_LAST = ".Oeu"
"""The characters that may end a salt: two bits of the last one count."""
_COST = "$2b$10$"
_DRAWN = 32
"""Bytes of a password that is drawn."""


def kept(folder: Path, file: str, user: str) -> str:
    """The password of a user in a file of this folder, drawn and written there if there is none. Raises BrokerError."""
    path = folder / file
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            named, password = credentials(path)
            if named != user:
                raise BrokerError(f'{path}: is of "{named}", and "{user}" is asked for') from None
            return password
        with os.fdopen(opened, "w") as stream:
            password = secrets.token_urlsafe(_DRAWN)
            stream.write(f"{user}:{password}\n")
    except OSError as error:
        raise BrokerError(f"{path}: {error.strerror}") from None
    return password


def bcrypt(user: str, password: str) -> str:
    """A password as a broker's configuration has it. The same words give the same text. Raises BrokerError."""
    drawn = blake2b(password.encode(), digest_size=22, person=b"broker", salt=_short(user)).digest()
    salt = "".join(_ALPHABET[byte % 64] for byte in drawn[:21]) + _LAST[drawn[21] % 4]
    made = _crypt(password.encode(), (_COST + salt).encode())
    if made is None or not made.startswith(_COST + salt):
        raise BrokerError("the C library of this machine has no bcrypt: write the permissions on another")
    return made


def _short(user: str) -> bytes:
    return blake2b(user.encode(), digest_size=16).digest()


def _crypt(password: bytes, setting: bytes) -> str | None:
    for name in filter(None, ("libcrypt.so.1", "libcrypt.so.2", find_library("crypt"))):
        try:
            function = ctypes.CDLL(name).crypt
        except (OSError, AttributeError):
            continue
        function.restype = ctypes.c_char_p
        function.argtypes = (ctypes.c_char_p, ctypes.c_char_p)
        made = function(password, setting)
        return None if made is None else bytes(made).decode("ascii", "replace")
    return None
