"""The lineage guard's memory of a conversation, and the parts in which it is kept.

Bounds. Text beyond ``Policy.limit``, or of more than TEXTS pieces, is not tracked, and from then on every sink is
refused. What only authorises stops growing instead: records beyond RECORDS and trusted words beyond WORDS authorise
nothing, what a listener was asked beyond TOLD threads or ASKED characters is taken for unknown, approvals beyond
APPROVALS are asked for again. What listeners pass on beyond ``RELAYED`` characters is missing in explanations.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from agentserver.codec import write_json
from agentserver.core.state.principals import Trust
from agentserver.guards.lineage.exposure import NOT_KNOWN, Exposure
from agentserver.guards.lineage.view.references import References
from agentserver.provenance.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from agentserver.guards.lineage.exposure import FirstText, Recall
    from agentserver.guards.lineage.view.references import PutIn, Referenced

TEXTS = 200_000
"""Untrusted texts, those wrapped in others included."""
RECORDS = 20_000
"""Values that the system guarantees."""
WORDS = 1_000_000
"""Characters of trusted words."""
TOLD = 64
"""Threads of which it is known what they were asked; those that were asked last stay."""
ASKED = 20_000
"""Characters of what one thread was asked."""
APPROVALS = 1000
"""Values that a person approved."""

PIECE = 1 << 15
"""Bytes after which a piece of the log is closed and not written again."""

_STATE, _LOG, _THREAD = "state", "log ", "thread "


@dataclass(frozen=True, slots=True)
class Log:
    """The contents of a ledger, a line of JSON for each step that added something."""

    closed: tuple[bytes, ...] = ()
    lines: tuple[bytes, ...] = ()
    size: int = 0

    def add(self, entry: Mapping[str, list[Any]]) -> Log:
        """The log with one more line."""
        line = write_json(entry)
        if self.size + len(line) < PIECE:
            return Log(self.closed, (*self.lines, line), self.size + len(line))
        return Log((*self.closed, b"\n".join((*self.lines, line))))

    def pieces(self) -> tuple[bytes, ...]:
        """The log in pieces, of which only the last one can still change."""
        return (*self.closed, b"\n".join(self.lines)) if self.lines else self.closed


class LastRequest(NamedTuple):
    """The latest request to the listener of a thread.

    Args:
        thread: the listener's.
        origin: the thread of the asking listener. What comes from elsewhere is an answer, not a question.
        texts: what was said; None when that was too much to be kept.
        data: origin, texts and steps as they are kept.
        steps: numbers of the plan's steps that the request is a call of.
    """

    thread: str
    origin: str
    texts: tuple[str, ...] | None
    data: bytes
    steps: tuple[int, ...] = ()

    @classmethod
    def of(
        cls, thread: str, origin: str, texts: Iterable[str] | None, steps: Iterable[int] = ()
    ) -> LastRequest:
        """The texts of a request on a thread, unless they are too long."""
        said = None if texts is None else tuple(texts)
        if said is not None and sum(map(len, said)) > ASKED:
            said = None
        known = tuple(steps)
        data = write_json([origin, said, known] if known else [origin, said])
        return cls(thread, origin, said, data, known)


@dataclass(frozen=True, slots=True)
class Memory:
    """The guard's memory of one conversation. Every change gives a new value.

    Args:
        ledger: what was seen.
        step: messages that listeners were given.
        told: what listeners were asked, the latest last.
        approved: digests of what a person approved for the rest of the conversation.
        log: what the ledger and the references hold and whom it reached, as it is kept.
        exposure: whom untrusted text reached.
        calm: whether nothing untrusted or private was seen and nobody is exposed. It follows from the others, and is
            kept so that a message in such a conversation costs no more for it.
        references: what listeners that are shown references were shown.
        trust: what the words of the conversation's principal count for.
    """

    ledger: Ledger = field(default_factory=Ledger)
    step: int = 0
    told: tuple[LastRequest, ...] = ()
    approved: frozenset[str] = frozenset()
    log: Log = field(default=Log(), compare=False, repr=False)
    exposure: Exposure = field(default_factory=Exposure)
    calm: bool = field(default=True, compare=False, repr=False)
    references: References = field(default=References(), repr=False)
    trust: Trust = Trust.ORDERS

    @classmethod
    def unknown(cls) -> Memory:
        """The memory of a conversation of which nothing is known: over the bound, and everybody is exposed."""
        return cls(replace(Ledger(), overflow=True), exposure=Exposure(everybody=NOT_KNOWN), calm=False)

    def stepped(self) -> Memory:
        """The memory at the next step."""
        return Memory(
            self.ledger,
            self.step + 1,
            self.told,
            self.approved,
            self.log,
            self.exposure,
            self.calm,
            self.references,
            self.trust,
        )

    def asked(self, words: str) -> Memory:
        """The memory after a trusted principal spoke. The same words to several listeners count once."""
        known = self.ledger.queries
        if words in known or sum(map(len, known)) + len(words) > WORDS:
            return self
        return self.grown(self.ledger.ask(words))

    def grown(self, ledger: Ledger) -> Memory:
        """The memory with a ledger that grew from its own."""
        before = self.ledger
        if ledger is before:
            return self
        ledger = bounded(before, ledger)
        entry = {name: more for name, more in ledger.additions_since(before).items() if more}
        log = self.log.add(entry) if entry else self.log
        return replace(self, ledger=ledger, log=log, calm=self.calm and _calm(ledger))

    def supposing(self, ledger: Ledger) -> Memory:
        """Give the memory with a ledger that grew from its own, for one judgement: it is not kept."""
        return replace(self, ledger=bounded(self.ledger, ledger))

    def missed(self) -> Memory:
        """The memory after a message of which nothing is known."""
        everybody = self.exposure.everybody or NOT_KNOWN._replace(step=self.step)
        known = replace(self, exposure=replace(self.exposure, everybody=everybody))
        return known.grown(replace(self.ledger, overflow=True))

    def reaching(self, listener: str, thread: str, recall: Recall, text: FirstText) -> Memory:
        """The memory after a listener was given untrusted text on a thread."""
        exposure = self.exposure.reaching(listener, thread, recall, text)
        more = exposure.since(self.exposure)
        log = self.log.add({"exposed": more}) if more else self.log
        return replace(self, exposure=exposure, log=log, calm=False)

    def spending(self, bits: float) -> Memory:
        """The memory after an exposed sender told somebody that much in a closed schema."""
        exposure = replace(self.exposure, bits=self.exposure.bits + bits)
        return replace(self, exposure=exposure, ledger=self.ledger.spend(bits))

    def telling(self, thread: str, origin: str, texts: Iterable[str], steps: Iterable[int] = ()) -> Memory:
        """The memory after a listener was asked something on a thread of its own, or got an answer there."""
        known = next((told for told in self.told if told.thread == thread), None)
        others = tuple(told for told in self.told if told.thread != thread)[1 - TOLD :]
        if known is not None and known.origin != origin:
            return replace(self, told=(*others, known))
        return replace(self, told=(*others, LastRequest.of(thread, origin, texts, steps)))

    def told_to(self, thread: str) -> tuple[str, ...] | None:
        """The latest request to the listener of a thread; None when it is not known."""
        return next((told.texts for told in self.told if told.thread == thread), None)

    def answering(self, thread: str) -> tuple[int, ...]:
        """The numbers of the plan's steps that the latest request to the listener of a thread is a call of."""
        return next((told.steps for told in self.told if told.thread == thread), ())

    def referring(self, more: Mapping[str, Referenced]) -> Memory:
        """The memory after a listener was shown these references, as far as there is room for them."""
        fitting = self.references.fitting(more)
        if not fitting:
            return self
        rows = [[name, *each] for name, each in fitting.items()]
        log = self.log.add({"references": rows})
        return replace(self, references=self.references.shown(fitting), log=log, calm=False)

    def putting_in(self, stamped: str, put_in: PutIn) -> Memory:
        """The memory after values were put into a message in place of references."""
        if self.references.put_in.get(stamped) == put_in:
            return self
        log = self.log.add({"put_in": [[stamped, *put_in]]})
        return replace(self, references=self.references.used(stamped, put_in), log=log)

    def approving(self, digests: Iterable[str]) -> Memory:
        """The memory after a person approved something for the rest of the conversation."""
        more = self.approved | frozenset(digests)
        return replace(self, approved=more) if len(more) <= APPROVALS else self


def bounded(before: Ledger, ledger: Ledger) -> Ledger:
    """The ledger that grew from another, as far as there is room for it."""
    if len(ledger.texts) > TEXTS:
        ledger = replace(before, overflow=True)
    if len(ledger.records.entries) > RECORDS:
        ledger = replace(ledger, records=before.records, recorded=before.recorded)
    return ledger


def _calm(ledger: Ledger) -> bool:
    """True while nothing was seen that a message could carry on."""
    private = ledger.private
    return not (ledger.tainted or private.pools or private.overflow)


def dump(memory: Memory) -> dict[str, bytes]:
    """The memory in parts. A part that a step has not changed is the same bytes as before."""
    parts = {f"{_LOG}{number}": piece for number, piece in enumerate(memory.log.pieces())}
    parts.update({f"{_THREAD}{told.thread}": told.data for told in memory.told})
    order = [told.thread for told in memory.told]
    exposure = memory.exposure.state()
    trust = () if memory.trust is Trust.ORDERS else (memory.trust,)
    state = [memory.step, order, sorted(memory.approved), memory.ledger.state(), exposure, *trust]
    return {**parts, _STATE: write_json(state)}


def load(parts: Mapping[str, bytes]) -> Memory:
    """The memory of which ``dump`` gave these parts. Raises ValueError, LookupError or TypeError for others.

    Earlier servers did not keep whom untrusted text reached: where there was any, everybody counts as exposed.
    """
    step, order, approved, state, *kept = json.loads(parts[_STATE])
    pieces = [parts[f"{_LOG}{number}"] for number in range(sum(name.startswith(_LOG) for name in parts))]
    shown = ("references", "put_in")
    names = ("queries", "texts", "records", "relayed", "sayings", "exposed", "private", *shown)
    held: dict[str, list[Any]] = {name: [] for name in names}
    log = Log()
    for line in (line for piece in pieces for line in piece.split(b"\n")):
        entry = json.loads(line)
        log = log.add(entry)
        for name, more in entry.items():
            held[name] += more
    reached = held.pop("exposed")
    references = References.load(held.pop("references"), held.pop("put_in"))
    ledger = Ledger.load({**held, **state})
    before = Exposure(everybody=NOT_KNOWN if ledger.tainted else None)
    exposure = Exposure.load(reached, *kept[:1]) if kept else before
    return Memory(
        ledger,
        step,
        tuple(LastRequest.of(thread, *json.loads(parts[f"{_THREAD}{thread}"])) for thread in order),
        frozenset(approved),
        log,
        exposure,
        _calm(ledger) and exposure.nobody and not references.known,
        references,
        *map(Trust, kept[1:]),
    )
