"""The tables of a journal, in every version.

Owns the migrations from each version to the next, and how an earlier one is read without being brought up to date.
Refuses to know what the rows mean.
"""

from __future__ import annotations

from typing import Final

MIGRATIONS: Final = (
    """
    create table conversation (
        number integer primary key,
        id text not null unique,
        principal text not null,
        root text not null,
        opened real not null,
        touched real not null,
        version integer not null,
        closed real,
        chain blob not null,
        state blob not null
    ) strict;
    create index conversation_touched on conversation(touched);

    create table step (
        number integer primary key,
        conversation integer not null,
        version integer not null,
        at real not null,
        seed blob not null,
        cause blob not null,
        records blob not null,
        first_delivery integer not null,
        deliveries integer not null,
        first_event integer not null,
        events integer not null,
        chain blob not null
    ) strict;
    create unique index step_of on step(conversation, version);

    create table delivery (
        number integer primary key,
        conversation integer not null,
        id text not null,
        request text not null,
        thread text not null,
        origin text not null,
        sender text not null,
        recipient text not null,
        root text not null,
        message blob not null,
        hop integer not null,
        about text not null,
        state integer not null default 0,
        reason text not null default '',
        ended real
    ) strict;
    create index delivery_queued on delivery(conversation) where state = 0;
    create index delivery_dead on delivery(number) where state = 3;

    create table event (
        number integer primary key,
        conversation integer not null,
        version integer not null,
        position integer not null,
        request text not null,
        sender text,
        root text,
        message blob,
        flag integer not null,
        waiting integer not null default 1
    ) strict;
    create index event_waiting on event(conversation, version, position) where waiting = 1;

    create table value (
        conversation integer not null,
        owner text not null,
        name text not null,
        data blob not null,
        primary key (conversation, owner, name)
    ) strict, without rowid;
    """,
    """
    create table answer (
        approval text primary key,
        digest text not null,
        said text not null,
        author text not null,
        at real not null
    ) strict, without rowid;
    """,
    """
    create table head (
        identity blob not null,
        steps integer not null,
        link blob not null
    ) strict;
    insert into head values (randomblob(16), 0, zeroblob(32));
    """,
    """
    create table receipt (
        conversation integer not null,
        name text not null,
        content text not null,
        request text not null,
        primary key (conversation, name)
    ) strict, without rowid;
    create index event_request on event(request);
    """,
    """
    alter table conversation add column seal blob not null default x'';
    alter table step add column form integer not null default 1;
    alter table delivery add column mark blob not null default x'';
    alter table event add column mark blob not null default x'';
    alter table answer add column seal blob not null default x'';
    alter table head add column seal blob not null default x'';
    """,
    """
    create table calendar (
        jumps text not null,
        last real not null,
        seal blob not null
    ) strict;
    """,
    """
    create table handoff (
        file text primary key,
        count integer not null,
        hash text not null,
        line text not null,
        size integer not null
    ) strict, without rowid;
    """,
    """
    create table aside (
        number integer primary key,
        conversation integer not null,
        at real not null,
        reason text not null,
        first_event integer not null,
        events integer not null,
        ended real,
        seal blob not null
    ) strict;
    create index aside_of on aside(conversation);
    """,
    """
    alter table step add column changes blob not null default x'';
    create table state (
        conversation integer primary key,
        version integer not null,
        data blob not null
    ) strict;
    """,
    """
    alter table delivery add column call text not null default '';
    """,
    """
    alter table conversation add column rights text not null default '';
    """,
    """
    create table opening (
        name text primary key,
        conversation text not null,
        at real not null,
        seal blob not null
    ) strict, without rowid;
    create index opening_of on opening(conversation);
    """,
    """
    create index step_decided on step(number) where substr(cause, 1, 9) = x'5b2264656369646522';
    create index step_priced on step(at) where substr(cause, 1, 9) in (x'5b2272657365727665', x'5b22736574746c6522');
    """,
    """
    create table claim (epoch integer not null, seal blob not null) strict;
    """,
)
"""The migrations, each from one version to the next. The version of a file is the number of those it has seen.

``delivery.call``: see engines/sqlite/stored.py; an earlier version wrote none.
``delivery.state``: 0 queued or held, 1 done, 2 dropped, 3 dead, 4 discarded by an operator, 5 a request of its own.
``event``: a reply when it has a message, with ``flag`` for errors; else the end of a request, ``flag`` for answered.
Seals, marks and the ``form`` of a step's link: see engines/sqlite/proof/seal.py; an earlier version wrote none.
``answer``: see engines/sqlite/care/answers.py. ``head``: see engines/sqlite/proof/head.py. ``calendar``: see
engines/sqlite/care/calendar.py. ``handoff``: see engines/sqlite/care/handoffs.py.
``aside``: see engines/sqlite/care/aside.py. ``opening``: see engines/sqlite/care/openings.py.
``step_decided``, ``step_priced``: the steps whose cause begins with the answer of a person, or with a charge.
``conversation.rights``: of its principal; empty where they are full (core/encoding/parts.py).
``state``, ``step.changes``: see engines/sqlite/stored.py.
``value``: see core/encoding/snapshot.py. Since version 10 there are entries of logs among them.
``claim``: see engines/sqlite/care/claims.py.
``receipt``: the messages that came under an id of their sender's; see core/receipts.py.
"""

READABLE: Final = 1
"""The earliest version that can be read without being brought up to date."""

SEALED: Final = 5
"""The version since which rows have digests."""

CHANGING: Final = 9
"""The version since which a step has the changes that it made."""

CALLING: Final = 10
"""The version since which a delivery has the call that it is or answers."""

RIGHTS: Final = 11
"""The version since which a conversation has the rights of its principal."""

_LATER: Final = (
    ("conversation", "seal", "x''", SEALED),
    ("delivery", "mark", "x''", SEALED),
    ("event", "mark", "x''", SEALED),
    ("step", "form", "1", SEALED),
    ("step", "changes", "x''", CHANGING),
    ("delivery", "call", "''", CALLING),
    ("conversation", "rights", "''", RIGHTS),
)
"""The columns that came later: table, name, the value in rows from before, and since which version they are there."""


def views(version: int) -> str:
    """The views that let an earlier journal read like one of this version."""
    found: dict[str, list[str]] = {}
    for table, column, before, since in _LATER:
        if version < since:
            found.setdefault(table, []).append(f"{before} as {column}")
    views = [
        f"create temp view {table} as select *, {', '.join(columns)} from main.{table};"  # noqa: S608 - our own names
        for table, columns in found.items()
    ]
    if version < CHANGING:
        views.append(
            "create temp view state as select 0 as conversation, 0 as version, x'' as data where false;"
        )
    return "".join(views)
