"""A batch of steps as one SQL statement, which is its own transaction.

The statement changes only conversations that this process still owns, at the epoch of its claim and the version that
the step was decided on, and returns their numbers. It is therefore fenced, and idempotent when it is sent again after a
lost connection.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agentserver.engines.journal.rows import Acknowledgement, FoldedRows, Row
    from agentserver.ports import Claim

_BIGINT, _INT, _TEXT, _BYTES, _FLOAT = "bigint", "int", "text", "bytea", "float8"
_NUMBERS = frozenset({_BIGINT, _INT, _FLOAT})


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
    """Part of the statement, for the rows of one field. ``{0}`` is replaced by the rows, as a relation ``n``.

    Args:
        name: of the part.
        columns: names and types.
        text: of the part.
        head: whether the ids that it returns are those of the conversations that are still held.
        complete: adds what a row needs of its step.
    """

    name: str
    columns: Sequence[tuple[str, str]]
    text: str
    head: bool = False
    complete: Callable[[PreparedStep, Row], Row] | None = None


def _collect_columns(text: str) -> list[tuple[str, str]]:
    types = {"b": _BIGINT, "i": _INT, "t": _TEXT, "y": _BYTES, "f": _FLOAT}
    return [(name, types[kind]) for name, kind in (one.split(":") for one in text.split())]


def _complete_opened(one: PreparedStep, row: Row) -> Row:
    return (*row, *one.claim)


def _complete_moved(one: PreparedStep, row: Row) -> Row:
    return (*row, *one.claim, one.before, one.receipt)


_STATE = "touched:f version:b last:b closed:f chain:y state:y asks:b due:f tokens:b money:b seal:y"
_OPENED = _Part(
    "opened",
    _collect_columns(f"number:b id:t principal:t root:t rights:t opened:f {_STATE} owner:b epoch:b"),
    "insert into @conversation (number, id, principal, root, rights, opened, touched, version, last, closed, chain,"
    " state, asks, due, tokens, money, seal, owner, epoch, moved)"
    " select n.*, clock_timestamp() from {0} on conflict (id) do nothing"
    " returning number",
    head=True,
    complete=_complete_opened,
)
_MOVED = _Part(
    "moved",
    _collect_columns(f"{_STATE} number:b owner:b epoch:b before:b receipt:t"),
    "update @conversation c set touched = n.touched, version = n.version, last = n.last, closed = n.closed,"
    " chain = n.chain, state = n.state, seal = n.seal, asks = n.asks, due = n.due, tokens = n.tokens,"
    " money = n.money, moved = clock_timestamp() from {0}"
    " where c.number = n.number and c.owner = n.owner and c.epoch = n.epoch and c.version = n.before"
    " and (n.receipt is null or not exists"
    " (select from @receipt r where r.conversation = n.number and r.name = n.receipt)) returning c.number",
    head=True,
    complete=_complete_moved,
)
_IN = " from {0} where n.conversation in (select number from held)"
_DELIVERY = (
    "number:b conversation:b id:t request:t thread:t origin:t sender:t recipient:t root:t message:y hop:b about:t"
    " call:t state:b reason:t ended:f mark:y"
)
_STEP = (
    "number:b conversation:b version:b previous:b at:f seed:y cause:y records:y changes:y first_delivery:b deliveries:b"
    " first_event:b events:b chain:y"
)
_PARTS = (
    _OPENED,
    _Part(
        "deliveries",
        _collect_columns(_DELIVERY),
        "insert into @delivery select n.*" + _IN,
    ),
    _Part(
        "ended",
        _collect_columns("state:b reason:t ended:f mark:y number:b owner:b conversation:b"),
        "update @delivery d set state = n.state, reason = n.reason, ended = n.ended, mark = n.mark from {0}"
        " where d.number = n.number and d.conversation = n.owner and n.conversation in (select number from held)",
    ),
    _Part(
        "queued",
        _collect_columns("conversation:b delivery:b delayed:b mark:y"),
        "insert into @queue select n.*" + _IN + " on conflict (conversation, delivery) do update"
        " set delayed = excluded.delayed, mark = excluded.mark",
    ),
    _Part(
        "unqueued",
        _collect_columns("conversation:b delivery:b"),
        "delete from @queue q using {0} where q.conversation = n.conversation and q.delivery = n.delivery"
        " and n.conversation in (select number from held)",
    ),
    _Part(
        "events",
        _collect_columns(
            "number:b conversation:b version:b position:b request:t sender:t root:t message:y flag:b"
        ),
        "insert into @event select n.*, 1, '\\x01'::bytea" + _IN,
    ),
    _Part("steps", _collect_columns(_STEP), "insert into @step select n.*" + _IN),
    _Part(
        "receipts",
        _collect_columns("conversation:b name:t content:t request:t"),
        "insert into @receipt select n.*" + _IN,
    ),
    _Part(
        "stored",
        _collect_columns("conversation:b owner:t name:t data:y"),
        "insert into @value select n.*" + _IN + " on conflict (conversation, owner, name) do update"
        " set data = excluded.data",
    ),
    _Part(
        "removed",
        _collect_columns("conversation:b owner:t name:t"),
        "delete from @value v using {0} where v.conversation = n.conversation and v.owner = n.owner"
        " and v.name = n.name and n.conversation in (select number from held)",
    ),
    _Part(
        "wholes",
        _collect_columns("conversation:b version:b data:y"),
        "insert into @state select n.*" + _IN + " on conflict (conversation) do update"
        " set version = excluded.version, data = excluded.data",
    ),
    _Part(
        "over",
        _collect_columns("conversation:b"),
        "delete from @state s using {0} where s.conversation = n.conversation"
        " and n.conversation in (select number from held)",
    ),
    _MOVED,
    _Part(
        "facets",
        _collect_columns("conversation:b kind:t value:t opened:f"),
        "insert into @facet select n.*" + _IN + " on conflict (conversation, kind, value) do nothing",
    ),
    _Part(
        "words",
        _collect_columns("conversation:b version:b words:t"),
        "insert into @wordlist select n.*" + _IN,
    ),
)
"""The parts, in the order of the fields of ``FoldedRows``."""

_LEFT = _Part(
    "passed_on",
    _collect_columns("id:t version:b position:b kind:i"),
    "update @event e set waiting = 0, mark = '\\x00'::bytea from {0} join @conversation c on c.id = n.id"
    " where e.conversation = c.number and e.waiting = 1 and (n.kind = 2"
    " or (n.kind = 1 and (e.version, e.position) <= (n.version, n.position))"
    " or (e.version = n.version and e.position = n.position))",
)


_ALL = (*_PARTS, _LEFT)


class StatementComposer:
    """Composer of the statements that commit batches, which remembers their texts.

    Rows come in an array for each column. The driver looks at each value of an array several times, which costs more
    than all else in a batch of one step; so a part of that with one row has a plain parameter for each column. Not so
    the events that have left: without an array their plan would read every part of the history.
    """

    def __init__(self) -> None:
        self._texts: dict[tuple[tuple[int, bool], ...], str] = {}

    def compose(
        self, group: Sequence[PreparedStep], acknowledged: Sequence[Acknowledgement]
    ) -> tuple[str, list[Any]]:
        """Compose the statement and its values from steps of different conversations and acknowledged events."""
        shape: list[tuple[int, bool]] = []
        values: list[Any] = []
        fields = [*zip(*[one.rows for one in group], strict=True)] or [()] * len(_PARTS)
        passed_on = [
            (one.conversation, one.version, one.position, _compute_kind(one)) for one in acknowledged
        ]
        for place, lists in enumerate((*fields, (passed_on,))):
            if not any(lists):
                continue
            complete = _ALL[place].complete
            rows: list[Row] = (
                [*chain.from_iterable(lists)]
                if complete is None
                else [complete(one, row) for one, found in zip(group, lists, strict=True) for row in found]
            )
            alone = len(rows) == 1 and len(group) == 1 and place < len(_PARTS)
            shape.append((place, alone))
            values += rows[0] if alone else map(_pack, zip(*rows, strict=True), _ALL[place].columns)
        key = tuple(shape)
        text = self._texts.get(key)
        if text is None:
            text = self._texts[key] = _write_statement(shape)
        return text, values


def _pack(column: Sequence[Any], declared: tuple[str, str]) -> Any:
    """Pack a column: numbers as the text of an array, which the driver takes without a look at each of them."""
    _, kind = declared
    if kind not in _NUMBERS:
        return list(column)
    return f"{{{','.join(map(str, column))}}}".replace("None", "null")


def _write_statement(shape: Sequence[tuple[int, bool]]) -> str:
    """Write the statement of some parts, each with one row or with any number."""
    heads: list[str] = []
    texts: list[str] = []
    names: list[str] = []
    first = 1
    for place, alone in shape:
        part = _ALL[place]
        text = _format_text(part, first, alone=alone)
        first += len(part.columns)
        (heads if part.head else texts).append(text)
        names += [part.name] if part.head else []
    held = " union all ".join(f"select number from {head}" for head in names)  # noqa: S608 - our own names
    held = f"held as materialized ({held or 'select 0::bigint as number where false'})"
    return f"with {', '.join((*heads, held, *texts))} select number from held"  # noqa: S608 - our own texts


def _format_text(part: _Part, first: int, *, alone: bool) -> str:
    """Format a part whose first parameter has this number."""
    kinds = [
        kind if alone else f"text::{kind}[]" if kind in _NUMBERS else f"{kind}[]" for _, kind in part.columns
    ]
    places = ", ".join(f"${at}::{kind}" for at, kind in enumerate(kinds, first))
    names = ", ".join(name for name, _ in part.columns)
    rows = f"(values ({places}))" if alone else f"unnest({places})"
    return f"{part.name} as ({part.text.format(f'{rows} as n({names})')})"


def _compute_kind(acknowledgement: Acknowledgement) -> int:
    return 2 if acknowledgement.version is None else int(acknowledgement.before)
