"""The file of principals: its format, and its atomic changes on disk.

The file is private to its owner. An unknown key, a duplicate name or a malformed digest makes it unusable, and then no
principal is known.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from agentserver.core.state import principals
from agentserver.core.state.principals import Principal, Trust
from agentserver.foreign_json.models import ForeignModel
from agentserver.foreign_json.reading import JsonLimits, RefusedJson
from agentserver.gateways.principals.callers import Caller, Rate, Role
from agentserver.ports.principals import InvalidPrincipalsError, StoredPrincipals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

FORM: Final = 1
"""The number of this form, which the file begins with."""

MOST_OPEN: Final = 1_000_000

_DIGEST: Final = "^[0-9a-f]{64}$"

LIMITS: Final = JsonLimits(bytes=1 << 25, values=200_000)
"""The limits of the file: some twenty thousand principals."""


class DuplicateNameError(ValueError):
    """Error of a name that exists already, or that looks like an existing one."""


@dataclass(frozen=True, slots=True)
class FormerToken:
    """The token that a principal had before its present one.

    Args:
        digest: its SHA-256 in hexadecimal digits.
        until: when it ends to count, in seconds since the epoch.
    """

    digest: str
    until: float


@dataclass(frozen=True, slots=True)
class PrincipalEntry:
    """The entry of one principal.

    Args:
        caller: the owner of the token.
        digest: the SHA-256 of its token in hexadecimal digits; empty once it is revoked.
        added: when, in seconds since the epoch.
        revoked: when; None while it is valid.
        former: the previous token; None without a valid one.
    """

    caller: Caller
    digest: str
    added: float
    revoked: float | None = None
    former: FormerToken | None = None


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class _Former(_Strict):
    token: str = Field(pattern=_DIGEST)
    until: float


class _Line(_Strict):
    name: str
    role: Annotated[Role, Field(strict=False)]
    trust: Annotated[Trust, Field(strict=False)]
    may: list[str] | None
    rate: str
    open: int = Field(ge=0, le=MOST_OPEN)
    token: str | None = Field(pattern=_DIGEST)
    added: float
    revoked: float | None
    former: _Former | None = None
    listener: str = Field(default="", max_length=128)


class _File(_Strict):
    form: int = Field(ge=FORM, le=FORM)
    principals: list[_Line]


_FORM: Final[ForeignModel[_File]] = ForeignModel(_File)


def read(data: bytes) -> tuple[PrincipalEntry, ...]:
    """Parse a file. Raises ValueError with the fault."""
    whole = _FORM.read(data, LIMITS)
    if isinstance(whole, RefusedJson):
        raise ValueError(f"{whole.pointer or 'the file'}: {whole.rule}")  # noqa: TRY004 - a refusal is a value
    found = tuple(map(_read_entry, whole.principals))
    for each in found:
        reason = principals.unknown_to_network(each.caller.name)
        if reason:
            raise ValueError(f"a name {reason}")
    twice = _has_duplicates(each.caller.name for each in found) or _has_duplicates(_iter_digests(found))
    if twice:
        raise ValueError("a name or a token is there twice")
    return found


def write(entries: Sequence[PrincipalEntry]) -> bytes:
    """Encode the entries as a file."""
    lines = [_build_line(each) for each in entries]
    return (json.dumps({"form": FORM, "principals": lines}, indent=1, ensure_ascii=False) + "\n").encode()


def add_entry(known: Sequence[PrincipalEntry], new: PrincipalEntry) -> tuple[PrincipalEntry, ...]:
    """Add an entry, in place of a revoked one with its name.

    Raises DuplicateNameError, ValueError for an invalid name.
    """
    name = new.caller.name
    reason = principals.unknown_to_network(name)
    if reason:
        raise ValueError(f"{name!r} {reason}, so no principal can bear it")
    other = next((each for each in known if principals.is_same_name(each.caller.name, name)), None)
    if other is not None and (other.revoked is None or other.caller.name != name):
        raise DuplicateNameError(f"{other.caller.name} is there already, or was")
    return (*(each for each in known if each is not other), new)


def revoke_entry(known: Sequence[PrincipalEntry], name: str, at: float) -> tuple[PrincipalEntry, ...]:
    """Revoke the token of a name. Raises LookupError if it has none."""
    return _change_entry(known, name, lambda each: replace(each, digest="", revoked=at, former=None))


def rotate_entry(
    known: Sequence[PrincipalEntry], name: str, digest: str, until: float
) -> tuple[PrincipalEntry, ...]:
    """Replace the token of a name, and keep the current one valid until a time.

    An even earlier token ends. Raises LookupError if the name has no token.
    """

    def rotate(each: PrincipalEntry) -> PrincipalEntry:
        caller, former = replace(each.caller, grant=digest), FormerToken(each.digest, until)
        return replace(each, caller=caller, digest=digest, former=former)

    return _change_entry(known, name, rotate)


def _change_entry(
    known: Sequence[PrincipalEntry], name: str, change: Callable[[PrincipalEntry], PrincipalEntry]
) -> tuple[PrincipalEntry, ...]:
    """Change the entry of a name that has a token. Raises LookupError without one."""
    chosen = [each.caller.name == name and each.revoked is None for each in known]
    if not any(chosen):
        raise LookupError(name)
    return tuple(change(each) if wanted else each for each, wanted in zip(known, chosen, strict=True))


def _iter_digests(entries: Iterable[PrincipalEntry]) -> Iterator[str]:
    for each in entries:
        if each.digest:
            yield each.digest
        if each.former is not None:
            yield each.former.digest


def _read_entry(line: _Line) -> PrincipalEntry:
    if (line.token is None) != (line.revoked is not None):
        raise ValueError("a principal has a token, or a time when it was revoked")
    if line.former is not None and line.revoked is not None:
        raise ValueError("a principal that was revoked has no former token")
    digest = line.token or ""
    if (line.role is Role.WORKER) != bool(line.listener):
        raise ValueError("a worker has a listener, and no other principal has one")
    principal = Principal(line.name, line.trust, None if line.may is None else tuple(line.may))
    caller = Caller(principal, line.role, Rate.parse(line.rate), line.open, digest, line.listener)
    former = None if line.former is None else FormerToken(line.former.token, line.former.until)
    return PrincipalEntry(caller, digest, line.added, line.revoked, former)


def _build_line(entry: PrincipalEntry) -> dict[str, object]:
    caller, principal, former = entry.caller, entry.caller.principal, entry.former
    return {
        "name": caller.name,
        "role": str(caller.role),
        "trust": str(principal.trust),
        "may": None if principal.may is None else list(principal.may),
        "rate": str(caller.rate),
        "open": caller.open,
        "token": entry.digest or None,
        "added": entry.added,
        "revoked": entry.revoked,
        "former": None if former is None else {"token": former.digest, "until": former.until},
        **({"listener": caller.listener} if caller.listener else {}),
    }


def _has_duplicates(texts: Iterable[str]) -> bool:
    return any(len(list(same)) > 1 for _, same in groupby(sorted(texts)))


SUFFIX: Final = ".principals"
MOST: Final = 4_000_000
"""Bytes of the file."""

_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

State: TypeAlias = tuple[int, ...]
"""A file's as the operating system tells it: another one means that it may hold something else."""


NONE: Final = StoredPrincipals(None, b"")


@dataclass(frozen=True, slots=True)
class PrincipalFile:
    """A file of principals, which need not be there: their store where one server works on an organism."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    def edition(self) -> State | None:
        """Return the state of the file; None if it is missing or inaccessible."""
        try:
            return _read_state(os.stat(self.path, follow_symlinks=False))  # noqa: PTH116 - a Path makes it three times as dear
        except OSError:
            return None

    def read(self) -> StoredPrincipals:
        """Read the file; NONE if it is missing.

        Raises InvalidPrincipalsError for a symbolic link, for access by other users, and for an unreadable file.
        """
        try:
            with _open(self.path, _READ) as descriptor:
                facts = os.fstat(descriptor)
                reason = _explain_unusable(facts)
                data = b"" if reason else _read_content(descriptor)
        except FileNotFoundError:
            return NONE
        except OSError as error:
            raise InvalidPrincipalsError(f"{self}: {error.strerror}") from None
        if reason or len(data) > MOST:
            raise InvalidPrincipalsError(f"{self}: {reason or f'has more than {MOST} bytes'}")
        return StoredPrincipals(_read_state(facts), data)

    def change(self, change: Callable[[bytes], bytes]) -> None:
        """Replace the file by the result of ``change``. Raises InvalidPrincipalsError, OSError, and its errors."""
        with _lock(self.path):
            _replace(self.path, change(self.read().data))


def locate_principal_file(path: Path) -> PrincipalFile:
    """Locate the file of principals of a journal, or of the organism's own file if it keeps none.

    It is next to the real file, so that every name of that leads to it.
    """
    real = path.resolve()
    return PrincipalFile(real.with_name(f"{real.name}{SUFFIX}"))


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Be the only one who changes the file. The folder is locked, since the file itself is replaced.

    Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _open(path.parent, _FOLDER) as folder:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
        os.fsync(folder)


def _replace(path: Path, data: bytes) -> None:
    """Put a new file of mode 0600 where the path says; within ``_lock``. Raises OSError.

    Where root does it, the file is the folder's owner's, whose server has to read it.
    """
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    with ExitStack() as stack:
        stack.callback(os.unlink, name)
        with os.fdopen(descriptor, "wb") as file:
            if os.geteuid() == 0:
                owner = path.parent.stat()
                os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)  # noqa: PTH105 - mkstemp gives a text
        stack.pop_all()


@contextmanager
def _open(path: Path, flags: int) -> Iterator[int]:
    descriptor = os.open(path, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _explain_unusable(facts: os.stat_result) -> str:
    if not stat.S_ISREG(facts.st_mode):
        return "is no plain file"
    return (
        "others may read or write it; chmod 600 makes it its owner's alone" if facts.st_mode & 0o077 else ""
    )


def _read_content(descriptor: int) -> bytes:
    with open(descriptor, "rb", closefd=False) as file:
        return file.read(MOST + 1)


def _read_state(facts: os.stat_result) -> State:
    return (facts.st_dev, facts.st_ino, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size)
