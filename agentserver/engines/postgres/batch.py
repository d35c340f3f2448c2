"""A batch of steps as one SQL statement, which is its own transaction.

The statement changes only conversations that this process still owns, at the epoch of its claim and the version that
the step was decided on, and returns their numbers. It is therefore fenced, and idempotent when it is sent again after a
lost connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from agentserver.engines.journal.rows import Acknowledgement, FoldedRows
    from agentserver.ports import Claim

_BIGINT, _INT, _TEXT, _BYTES, _FLOAT = "bigint", "int", "text", "bytea", "float8"


class PreparedStep(NamedTuple):
    """Step as rows, ready to send.

    Args:
        claim: of the process that decided the step.
        before: version of the conversation that it was decided on.
        number: of the conversation.
        step: number of the step.
        chain: the chain link that the step adds.
        receipt: the name of its receipt.
        rows: of this step alone.
    """

    conversation: str
    claim: Claim
    before: int
    number: int
    step: int
    chain: bytes
    receipt: str | None
    rows: FoldedRows


class _Part(NamedTuple):
    """Optional part of the statement. ``{0}`` is replaced by ``unnest`` with its columns."""

    name: str
    columns: Sequence[tuple[str, str]]
    text: str
    rows: Callable[[PreparedStep], Iterable[Sequence[Any]]]


def _collect_columns(text: str) -> list[tuple[str, str]]:
    types = {"b": _BIGINT, "i": _INT, "t": _TEXT, "y": _BYTES, "f": _FLOAT}
    return [(name, types[kind]) for name, kind in (one.split(":") for one in text.split())]


def _list_opened(one: PreparedStep) -> list[Sequence[Any]]:
    return [(*row, *one.claim) for row in one.rows.opened]


def _list_moved(one: PreparedStep) -> list[Sequence[Any]]:
    return [(*row, *one.claim, one.before, one.receipt) for row in one.rows.states]


_STATE = "touched:f version:b closed:f chain:y state:y asks:b due:f tokens:b money:b seal:y"
_OPENED = _Part(
    "opened",
    _collect_columns(f"number:b id:t principal:t root:t rights:t opened:f {_STATE} owner:b epoch:b"),
    "insert into @conversation (number, id, principal, root, rights, opened, touched, version, closed, chain, state,"
    " asks, due, tokens, money, seal, owner, epoch, moved)"
    " select n.*, clock_timestamp() from {0} on conflict (id) do nothing"
    " returning number",
    _list_opened,
)
_MOVED = _Part(
    "moved",
    _collect_columns(f"{_STATE} number:b owner:b epoch:b before:b receipt:t"),
    "update @conversation c set touched = n.touched, version = n.version, closed = n.closed, chain = n.chain,"
    " state = n.state, seal = n.seal, asks = n.asks, due = n.due, tokens = n.tokens,"
    " money = n.money, moved = clock_timestamp() from {0}"
    " where c.number = n.number and c.owner = n.owner and c.epoch = n.epoch and c.version = n.before"
    " and (n.receipt is null or not exists"
    " (select from @receipt r where r.conversation = n.number and r.name = n.receipt)) returning c.number",
    _list_moved,
)
_IN = " from {0} where n.conversation in (select number from held)"
_DELIVERY = (
    "number:b conversation:b id:t request:t thread:t origin:t sender:t recipient:t root:t message:y hop:b about:t"
    " call:t state:b reason:t ended:f mark:y"
)
_STEP = (
    "number:b conversation:b version:b at:f seed:y cause:y records:y changes:y first_delivery:b deliveries:b"
    " first_event:b events:b chain:y"
)
_PARTS = (
    _Part("steps", _collect_columns(_STEP), "insert into @step select n.*" + _IN, lambda one: one.rows.steps),
    _Part(
        "deliveries",
        _collect_columns(_DELIVERY),
        "insert into @delivery select n.*" + _IN,
        lambda one: one.rows.deliveries,
    ),
    _Part(
        "ended",
        _collect_columns("state:b reason:t ended:f mark:y number:b owner:b conversation:b"),
        "update @delivery d set state = n.state, reason = n.reason, ended = n.ended, mark = n.mark from {0}"
        " where d.number = n.number and d.conversation = n.owner and n.conversation in (select number from held)",
        lambda one: one.rows.ended_deliveries,
    ),
    _Part(
        "events",
        _collect_columns(
            "number:b conversation:b version:b position:b request:t sender:t root:t message:y flag:b"
        ),
        "insert into @event select n.*, 1, '\\x01'::bytea" + _IN,
        lambda one: one.rows.events,
    ),
    _Part(
        "receipts",
        _collect_columns("conversation:b name:t content:t request:t"),
        "insert into @receipt select n.*" + _IN,
        lambda one: one.rows.receipts,
    ),
    _Part(
        "stored",
        _collect_columns("conversation:b owner:t name:t data:y"),
        "insert into @value select n.*" + _IN + " on conflict (conversation, owner, name) do update"
        " set data = excluded.data",
        lambda one: one.rows.values,
    ),
    _Part(
        "removed",
        _collect_columns("conversation:b owner:t name:t"),
        "delete from @value v using {0} where v.conversation = n.conversation and v.owner = n.owner"
        " and v.name = n.name and n.conversation in (select number from held)",
        lambda one: one.rows.removed_keys,
    ),
    _Part(
        "wholes",
        _collect_columns("conversation:b version:b data:y"),
        "insert into @state select n.*" + _IN + " on conflict (conversation) do update"
        " set version = excluded.version, data = excluded.data",
        lambda one: one.rows.wholes,
    ),
    _Part(
        "facets",
        _collect_columns("conversation:b kind:t value:t opened:f"),
        "insert into @facet select n.*" + _IN + " on conflict (conversation, kind, value) do nothing",
        lambda one: one.rows.facets,
    ),
    _Part(
        "words",
        _collect_columns("conversation:b version:b words:t"),
        "insert into @wordlist select n.*" + _IN,
        lambda one: one.rows.words,
    ),
    _Part(
        "over",
        _collect_columns("conversation:b"),
        "delete from @state s using {0} where s.conversation = n.conversation"
        " and n.conversation in (select number from held)",
        lambda one: [(number,) for number in one.rows.over if one.before],
    ),
)
_LEFT = _Part(
    "passed_on",
    _collect_columns("id:t version:b position:b kind:i"),
    "update @event e set waiting = 0, mark = '\\x00'::bytea from {0} join @conversation c on c.id = n.id"
    " where e.conversation = c.number and e.waiting = 1 and (n.kind = 2"
    " or (n.kind = 1 and (e.version, e.position) <= (n.version, n.position))"
    " or (e.version = n.version and e.position = n.position))",
    lambda _: [],
)


def compose_statement(
    group: Sequence[PreparedStep], acknowledged: Iterable[Acknowledgement]
) -> tuple[str, list[list[Any]]]:
    """Compose the statement and its values from steps of different conversations and acknowledged events."""
    heads = _fill_parts((_OPENED, _MOVED), group)
    passed_on: list[Sequence[Any]] = [
        (one.conversation, one.version, one.position, _compute_kind(one)) for one in acknowledged
    ]
    parts = _fill_parts(_PARTS, group)
    if passed_on:
        parts.append((_LEFT, passed_on))
    values: list[list[Any]] = []
    texts = [_format_text(part, rows, values) for part, rows in heads]
    texts.append(_compose_held([part.name for part, _ in heads]))
    texts += [_format_text(part, rows, values) for part, rows in parts]
    return f"with {', '.join(texts)} select number from held", values  # noqa: S608 - our own texts


def _fill_parts(
    parts: Iterable[_Part], group: Sequence[PreparedStep]
) -> list[tuple[_Part, list[Sequence[Any]]]]:
    found = [(part, [row for one in group for row in part.rows(one)]) for part in parts]
    return [(part, rows) for part, rows in found if rows]


def _compose_held(heads: Sequence[str]) -> str:
    rows = " union all ".join(f"select number from {head}" for head in heads)  # noqa: S608 - our own names
    return f"held as materialized ({rows or 'select 0::bigint as number where false'})"


def _format_text(part: _Part, rows: Sequence[Sequence[Any]], values: list[list[Any]]) -> str:
    first = len(values)
    values += [list(column) for column in zip(*rows, strict=True)]
    arrays = ", ".join(f"${first + place}::{kind}[]" for place, (_, kind) in enumerate(part.columns, 1))
    names = ", ".join(name for name, _ in part.columns)
    return f"{part.name} as ({part.text.format(f'unnest({arrays}) as n({names})')})"


def _compute_kind(acknowledgement: Acknowledgement) -> int:
    return 2 if acknowledgement.version is None else int(acknowledgement.before)
