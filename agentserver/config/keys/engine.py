"""The keys below ``engine:`` in ``organism.yaml``: types, bounds, help texts, and rules about several keys.

Owns the pydantic models, and that a password does not lie in the file. Refuses to connect.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias
from urllib.parse import parse_qs, urlsplit

from pydantic import AfterValidator, BeforeValidator, Field

from agentserver.config.keys.fields import Deadline, Drain, Retention, Spelling, Strict, given
from agentserver.config.organism import PostgresKeys, SourceLine
from agentserver.extras import installed, installing
from agentserver.remedies.configuration import ConfigCode

if TYPE_CHECKING:
    from collections.abc import Collection

    from agentserver.config.findings import Loc, Mistakes
    from agentserver.config.yaml.document import Document

_DEFAULTS: Final = PostgresKeys()
_URL: Final[Loc] = ("engine", "postgres", "url")
_RESERVED: Final = re.compile(r"pg_|information_schema$")
_NO_URL: Final = 'is no address of a database such as "postgresql://desk@db.example/desk"'
_UNQUOTED: Final = (
    "has a port that is not a number, or a password with signs to be escaped: @ is %40, / is %2F, # is %23"
)
_HOST: Final = re.compile(r"(\[[^\[\]]*\]|[^:@\[\]]*)(:[0-9]{0,5})?")
_SHORTEST_LEASE: Final = 1.0


def _connectable(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ValueError(_NO_URL) from None
    if url and (parts.scheme not in ("postgres", "postgresql") or not url.isprintable() or " " in url):
        raise ValueError(_NO_URL)
    user, _, hosts = parts.netloc.rpartition("@")
    if "@" in user + parts.path or parts.fragment or not all(map(_HOST.fullmatch, hosts.split(","))):
        raise ValueError(_UNQUOTED)
    return url


def _own(schema: str) -> str:
    if _RESERVED.match(schema):
        raise ValueError(f'"{schema}" is a schema of the database itself')
    return schema


def _renewable(lease: float) -> float:
    if lease < _SHORTEST_LEASE:
        raise ValueError(f"must be at least {_SHORTEST_LEASE:g} s: it is renewed three times in that time")
    return lease


_Schema: TypeAlias = Annotated[
    str,
    Spelling(
        r"^[a-z_][a-z0-9_]{0,39}$",
        "may hold a to z, digits and _ only, at most 40, and begins with a letter or _",
    ),
    AfterValidator(_own),
]


class PostgresEntry(Strict):
    """A Postgres database that keeps the conversations of all servers of an organism."""

    url: Annotated[str, Field(max_length=2000), AfterValidator(_connectable)] = Field(
        default=_DEFAULTS.url,
        description="The address of the database, with several hosts if there are standbys: postgresql://USER@HOST/DB. "
        "Take one with a password from the environment: ${DATABASE_URL}. Anything it leaves out comes from PG* "
        "variables, as with other clients.",
        examples=["postgresql://desk@db.example/desk?sslmode=verify-full", "${DATABASE_URL}"],
    )
    schema_name: _Schema = Field(
        default=_DEFAULTS.schema,
        alias="schema",
        description="The schema that holds the tables. Organisms that share a database have one each.",
    )
    migrate: Literal["auto", "never"] = Field(
        default=_DEFAULTS.migrate,
        description="auto: a server that starts makes or upgrades the tables. never: agentserver engine migrate does, "
        "and a server that finds an older form does not start.",
    )
    wait: Drain = Field(
        default=_DEFAULTS.wait,
        description='How long a server that starts waits for a database that is away, such as "60s"; then it ends with '
        "status 2.",
    )
    lease: Annotated[Deadline, AfterValidator(_renewable)] = Field(
        default=_DEFAULTS.lease,
        description="Time without a sign of life after which other servers take over the conversations of a server.",
    )
    durability: Literal["full", "relaxed"] = Field(
        default=_DEFAULTS.durability,
        description="full: a server does not start where the database acknowledges commits that are not on its disk. "
        "relaxed: it starts, says so, and acknowledged messages may be lost with the power of the database.",
    )
    retention: Retention = Field(
        default=_DEFAULTS.retention, description='How long finished conversations are kept, such as "30d".'
    )


class EngineEntry(Strict):
    """The engine that keeps conversations in place of a journal."""

    postgres: PostgresEntry = Field(
        title="Postgres", description="Postgres 14 or newer. Needs the extra postgres."
    )


MaybeEngine: TypeAlias = Annotated[
    Annotated[EngineEntry | None, BeforeValidator(given, json_schema_input_type=EngineEntry)],
    Field(
        title="Engine",
        description="The storage of conversations in place of a journal: one that several servers share.",
    ),
]


def sound_engine(document: Document) -> PostgresKeys | None:
    """Read the engine of a main file; None where it has none. Raises ValidationError for one with mistakes."""
    if "engine" not in document.data:
        return None
    entry = EngineEntry.model_validate(document.data["engine"]).postgres
    where = document.where(("engine", "postgres"))
    return PostgresKeys(
        entry.url,
        entry.schema_name,
        entry.migrate,
        entry.wait,
        entry.lease,
        entry.durability,
        entry.retention,
        SourceLine(where.file, where.line),
    )


def read_engine(document: Document, faulty: Collection[str], report: Mistakes) -> PostgresKeys | None:
    """Read the engine of an organism; None where it has none, or one with mistakes. Contradictions are reported."""
    if "engine" not in document.data.keys() - faulty:
        return None
    found = sound_engine(document)
    assert found is not None
    if document.data.get("journal", "none") != "none":
        told = "journal: and engine: are both there, and conversations are kept in one place"
        report.error(ConfigCode.TWICE, document.where(("journal",)), told, "remove journal:, or engine:")
    if not installed("postgres"):
        told = f"needs the extra postgres: {installing('postgres')}"
        report.error(ConfigCode.EXTRA, document.where(("engine", "postgres")), told)
    parts, at = urlsplit(found.url), document.where(_URL)
    if parts.password and _URL not in document.substituted:
        told = "the password lies in the file, for everybody who may read it"
        report.error(ConfigCode.SECRET, at, told, "url: ${DATABASE_URL}, or the variable PGPASSWORD")
    settings = parse_qs(parts.query)
    unsafe = {"off", "false", "no", "0"}.intersection(settings.get("synchronous_commit", ()))
    if found.durability == "full" and (
        unsafe or "synchronous_commit=off" in settings.get("options", [""])[0]
    ):
        told = "synchronous_commit=off acknowledges messages that a loss of power takes back"
        report.error(ConfigCode.VALUE, at, told, '"durability: relaxed", if that is what is meant')
    return found
