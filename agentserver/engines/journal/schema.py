"""The journal's tables, declared once for every SQL dialect."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

FORMAT: Final = 1
"""The format of the tables. No other format is read."""

_TABLES: Final = """
    create table conversation (
        number integer primary key,
        id text not null unique,
        principal text not null,
        root text not null,
        rights text not null,
        opened real not null,
        touched real not null,
        version integer not null,
        last integer not null,
        closed real,
        chain blob not null,
        state blob not null,
        asks integer not null,
        due real,
        tokens integer not null,
        money integer not null,
        seal blob not null
    ) @table;
    create index conversation_touched on conversation(touched);
    create index conversation_opened on conversation(opened, number);
    create index conversation_principal on conversation(principal, opened, number);
    create index conversation_open on conversation(opened, number) where closed is null;
    create index conversation_asks on conversation(number) where asks > 0;
    create index conversation_due on conversation(due, number) where due is not null;

    create table step (
        number rowkey,
        conversation integer not null,
        version integer not null,
        previous integer not null,
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
    ) @history;
    create unique index step_of on step(conversation, version) where version % 64 = 0;
    create index step_decided on step(number) where substr(cause, 1, 11) = x'5b312c5b22646563696465';
    create index step_priced on step(at)
        where substr(cause, 1, 11) in (x'5b312c5b22726573657276', x'5b312c5b22736574746c65');

    create table delivery (
        number rowkey,
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
        state integer not null,
        reason text not null default '',
        ended real,
        mark blob not null
    ) @history;
    create index delivery_dead on delivery(number) where state = 3;
    create index delivery_discarded on delivery(number) where state = 4;

    create table queue (
        conversation integer not null,
        delivery integer not null,
        delayed integer not null,
        mark blob not null,
        primary key (conversation, delivery)
    ) @lookup;

    create table event (
        number rowkey,
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
    ) @history;
    create index event_waiting on event(conversation, version, position) where waiting = 1;
    create index event_request on event(request);

    create table value (
        conversation integer not null,
        owner text not null,
        name text not null,
        data blob not null,
        primary key (conversation, owner, name)
    ) @lookup;

    create index value_effects on value(conversation) where owner = 'effects';

    create table facet (
        conversation integer not null,
        kind text not null,
        value text not null,
        opened real not null,
        primary key (conversation, kind, value)
    ) @lookup;
    create index facet_found on facet(kind, value, opened, conversation);

    create table wordlist (
        conversation integer not null,
        version integer not null,
        words text not null,
        primary key (conversation, version)
    ) @lookup;

    create table state (
        conversation integer primary key,
        version integer not null,
        data blob not null
    ) @table;

    create table receipt (
        conversation integer not null,
        name text not null,
        content text not null,
        request text not null,
        primary key (conversation, name)
    ) @history_lookup;

    create table completion (
        number counter primary key,
        conversation integer not null,
        at real not null,
        until real not null,
        data blob not null,
        seal blob not null
    ) @table;
    create index completion_of on completion(conversation);
    create index completion_until on completion(until);

    create table opening (
        name text primary key,
        conversation text not null,
        at real not null,
        seal blob not null
    ) @lookup;
    create index opening_of on opening(conversation);

    create table answer (
        approval text primary key,
        digest text not null,
        said text not null,
        author text not null,
        at real not null,
        seal blob not null
    ) @lookup;

    create table suspension (
        number counter primary key,
        conversation integer not null,
        at real not null,
        reason text not null,
        first_event integer not null,
        events integer not null,
        ended real,
        seal blob not null
    ) @table;
    create index suspension_of on suspension(conversation);

    create table handoff (
        file text primary key,
        count integer not null,
        hash text not null,
        line text not null,
        size integer not null
    ) @lookup;

    create table note (
        number counter primary key,
        id text not null unique,
        scope text not null,
        owner text not null,
        name text not null,
        principal text not null,
        at real not null,
        stranger integer not null,
        size integer not null,
        salt blob not null,
        data blob not null,
        words text not null,
        seal blob not null
    ) @table;
    create index note_owned on note(scope, owner, name);
    create index note_principal on note(principal);

    create table note_source (
        note text not null,
        name text not null,
        place text not null,
        host text not null,
        primary key (note, name, place)
    ) @lookup;

    create table note_log (
        number counter primary key,
        at real not null,
        action text not null,
        note text not null,
        by text not null,
        digest blob not null,
        link blob not null
    ) @table;

    create table note_head (one integer primary key, link blob not null) @table;

    create table calendar (
        jumps text not null,
        last real not null,
        seal blob not null
    ) @table;
"""
"""The tables.

``delivery.state``: see ``DeliveryEnd`` in engines/journal/rows.py.
``queue``: the deliveries that wait, for their turn or (``delayed``) for their time.
``event``: a reply when it has a message, with ``flag`` for errors; else the end of a request, ``flag`` for answered.
``conversation.last``, ``step.previous``, ``step_of``: see engines/journal/walking.py.
``step_decided``, ``step_priced``: steps whose cause is a person's answer, or a charge.
``value_effects``: the external effects.
``facet``, ``wordlist``: derived from the steps, for searches: see engines/journal/finding.py.
``conversation.asks``: the number of messages that wait for a person.
``conversation.due``: as ``sleeps_until`` of ``Conversation``.
``state``, ``step.changes``, ``delivery.call``: see engines/journal/stored.py. Seals, marks and chains: see
engines/journal/seal.py; ``value``: see core/encoding/snapshot.py; ``receipt``: see core/receipts.py; ``handoff``:
see engines/sqlite/handoffs.py; ``completion``: engines/journal/completions.py;
``suspension``: engines/journal/suspension.py; ``note`` and its log: engines/journal/notes.py; the
others: engines/journal/records.py.
"""

NAMES: Final = tuple(re.findall(r"create table (\w+)", _TABLES))
"""The names of the tables."""

_WORD = re.compile(r"\b(integer|real|blob|counter|rowkey)\b|@(\w+)|x'([0-9a-f]*)'")


class Dialect(NamedTuple):
    """Forms that differ between databases.

    Args:
        types: of columns: ``integer``, ``real``, ``blob``, ``counter`` for an automatic number, and ``rowkey`` for the
            number of a history row.
        options: of tables: ``table``, ``lookup`` for one read only by its primary key, ``history`` and
            ``history_lookup`` for rows that expire with their conversation.
        literal: text around the hexadecimal digits of a bytes literal.
    """

    types: Mapping[str, str]
    options: Mapping[str, str]
    literal: tuple[str, str]

    def render_tables(self) -> str:
        """Render the statements that create an empty journal's tables."""
        return _WORD.sub(self._find_form, _TABLES).replace(") ;", ");")

    def _find_form(self, found: re.Match[str]) -> str:
        kind, options, digits = found.groups()
        if kind is not None:
            return self.types[kind]
        if options is not None:
            return self.options[options]
        return digits.join(self.literal)
