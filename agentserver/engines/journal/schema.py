"""The tables of a journal.

Holds their definition and the number of the format. Must not know what the rows mean.
"""

from __future__ import annotations

from typing import Final

FORMAT: Final = 1
"""The format of the tables. There is no release yet, so no other format is read."""

TABLES: Final = """
    create table conversation (
        number integer primary key,
        id text not null unique,
        principal text not null,
        root text not null,
        rights text not null,
        opened real not null,
        touched real not null,
        version integer not null,
        closed real,
        chain blob not null,
        state blob not null,
        seal blob not null
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
        changes blob not null,
        first_delivery integer not null,
        deliveries integer not null,
        first_event integer not null,
        events integer not null,
        chain blob not null
    ) strict;
    create unique index step_of on step(conversation, version);
    create index step_decided on step(number) where substr(cause, 1, 9) = x'5b2264656369646522';
    create index step_priced on step(at) where substr(cause, 1, 9) in (x'5b2272657365727665', x'5b22736574746c6522');

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
        call text not null,
        state integer not null default 0,
        reason text not null default '',
        ended real,
        mark blob not null
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
        waiting integer not null,
        mark blob not null
    ) strict;
    create index event_waiting on event(conversation, version, position) where waiting = 1;
    create index event_request on event(request);

    create table value (
        conversation integer not null,
        owner text not null,
        name text not null,
        data blob not null,
        primary key (conversation, owner, name)
    ) strict, without rowid;

    create table state (
        conversation integer primary key,
        version integer not null,
        data blob not null
    ) strict;

    create table receipt (
        conversation integer not null,
        name text not null,
        content text not null,
        request text not null,
        primary key (conversation, name)
    ) strict, without rowid;

    create table opening (
        name text primary key,
        conversation text not null,
        at real not null,
        seal blob not null
    ) strict, without rowid;
    create index opening_of on opening(conversation);

    create table answer (
        approval text primary key,
        digest text not null,
        said text not null,
        author text not null,
        at real not null,
        seal blob not null
    ) strict, without rowid;

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

    create table handoff (
        file text primary key,
        count integer not null,
        hash text not null,
        line text not null,
        size integer not null
    ) strict, without rowid;

    create table calendar (
        jumps text not null,
        last real not null,
        seal blob not null
    ) strict;
"""
"""The tables.

``delivery.state``: 0 queued or held, 1 done, 2 dropped, 3 dead, 4 discarded by an operator, 5 a request of its own.
``event``: a reply when it has a message, with ``flag`` for errors; else the end of a request, ``flag`` for answered.
``step_decided``, ``step_priced``: the steps whose cause begins with the answer of a person, or with a charge.
``state``, ``step.changes``, ``delivery.call``: see engines/journal/stored.py. Seals, marks and chains: see
engines/journal/seal.py; ``value``: see core/encoding/snapshot.py; ``receipt``: see core/receipts.py; the other
tables: the modules of engines/journal/care that bear their names.
"""
