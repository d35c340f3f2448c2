"""The file of principals: its form.

Owns what is written and that nothing else is read: an unknown key, a name twice, a digest that is none make the whole
of it illegible, and nobody is known by it. Refuses to know where it lies.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from agentserver.core.state import principals
from agentserver.core.state.principals import Principal, Trust
from agentserver.foreign_json.models import ForeignModel
from agentserver.foreign_json.reading import JsonLimits, RefusedJson
from agentserver.gateways.principals.callers import Caller, Rate, Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

FORM: Final = 1
"""The number of this form, which the file begins with."""

MOST_OPEN: Final = 1_000_000

_DIGEST: Final = "^[0-9a-f]{64}$"

LIMITS: Final = JsonLimits(bytes=1 << 25, values=200_000)
"""The limits of the file: some twenty thousand principals."""


class KnownError(ValueError):
    """There is a principal of this name, or of one that looks like it, already."""


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
class Enrolled:
    """The entry of one principal.

    Args:
        caller: the one who is known by the token.
        digest: the SHA-256 of its token in hexadecimal digits; empty once it is revoked.
        added: when, in seconds since the epoch.
        revoked: when; None while it counts.
        former: the token before this one; None where none counts any more.
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


def read(data: bytes) -> tuple[Enrolled, ...]:
    """The entries of a file. Raises ValueError, which says what is wrong with it."""
    whole = _FORM.read(data, LIMITS)
    if isinstance(whole, RefusedJson):
        raise ValueError(f"{whole.pointer or 'the file'}: {whole.rule}")  # noqa: TRY004 - a refusal is a value
    found = tuple(map(_entry, whole.principals))
    for each in found:
        why = principals.unknown_to_network(each.caller.name)
        if why:
            raise ValueError(f"a name {why}")
    twice = _twice(each.caller.name for each in found) or _twice(_digests(found))
    if twice:
        raise ValueError("a name or a token is there twice")
    return found


def write(entries: Sequence[Enrolled]) -> bytes:
    """The file that holds them."""
    lines = [_line(each) for each in entries]
    return (json.dumps({"form": FORM, "principals": lines}, indent=1, ensure_ascii=False) + "\n").encode()


def added(known: Sequence[Enrolled], new: Enrolled) -> tuple[Enrolled, ...]:
    """The entries with one more, in the place of one of its name that is revoked.

    Raises KnownError, ValueError when nobody can bear the name.
    """
    name = new.caller.name
    why = principals.unknown_to_network(name)
    if why:
        raise ValueError(f"{name!r} {why}, so no principal can bear it")
    other = next((each for each in known if principals.same(each.caller.name, name)), None)
    if other is not None and (other.revoked is None or other.caller.name != name):
        raise KnownError(f"{other.caller.name} is there already, or was")
    return (*(each for each in known if each is not other), new)


def revoked(known: Sequence[Enrolled], name: str, at: float) -> tuple[Enrolled, ...]:
    """The entries, in which the token of this name counts no more. Raises LookupError when it has none."""
    if not any(each.caller.name == name and each.revoked is None for each in known):
        raise LookupError(name)
    return tuple(
        replace(each, digest="", revoked=at, former=None)
        if each.caller.name == name and each.revoked is None
        else each
        for each in known
    )


def rotated(known: Sequence[Enrolled], name: str, digest: str, until: float) -> tuple[Enrolled, ...]:
    """The entries, in which this name has another token, and the one that it had counts until then.

    The token before that one ends to count. Raises LookupError when the name has no token.
    """
    if not any(each.caller.name == name and each.revoked is None for each in known):
        raise LookupError(name)
    return tuple(
        replace(
            each,
            caller=replace(each.caller, grant=digest),
            digest=digest,
            former=FormerToken(each.digest, until),
        )
        if each.caller.name == name and each.revoked is None
        else each
        for each in known
    )


def _digests(entries: Iterable[Enrolled]) -> Iterator[str]:
    for each in entries:
        if each.digest:
            yield each.digest
        if each.former is not None:
            yield each.former.digest


def _entry(line: _Line) -> Enrolled:
    if (line.token is None) != (line.revoked is not None):
        raise ValueError("a principal has a token, or a time when it was revoked")
    if line.former is not None and line.revoked is not None:
        raise ValueError("a principal that was revoked has no former token")
    digest = line.token or ""
    if (line.role is Role.WORKER) != bool(line.listener):
        raise ValueError("a worker has a listener, and no other principal has one")
    principal = Principal(line.name, line.trust, None if line.may is None else tuple(line.may))
    caller = Caller(principal, line.role, Rate.of(line.rate), line.open, digest, line.listener)
    former = None if line.former is None else FormerToken(line.former.token, line.former.until)
    return Enrolled(caller, digest, line.added, line.revoked, former)


def _line(entry: Enrolled) -> dict[str, object]:
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


def _twice(texts: Iterable[str]) -> bool:
    return any(len(list(same)) > 1 for _, same in groupby(sorted(texts)))
