"""Guards of the server itself, in the order in which they are asked."""

from __future__ import annotations

from hashlib import sha256
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from agentserver.characters.printing import format_duration
from agentserver.contract import Code
from agentserver.core.drafts.routing import Route
from agentserver.core.guard import (
    CountedAmount,
    DenyVerdict,
    NeedsApproval,
    WeighedMessage,
    keep_memory,
)
from agentserver.core.records.details import Ground
from agentserver.payload.conditions import fit_conditions
from agentserver.wire.envelope import canonical

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from lxml import etree

    from agentserver.core.blueprint import Listener
    from agentserver.core.drafts.routing import Proposal
    from agentserver.core.guard import CoreGuard, Verdict
    from agentserver.guards.lineage.guard import TrustSettings
    from agentserver.payload.codec import Codecs
    from agentserver.payload.conditions import FieldCondition, FieldTest

_APPROVED = "permitted"


class PeersGuard:
    """Guard that lets a listener send only to its caller, itself, ``system.*`` and its ``peers``."""

    name = "peers"
    passes_answers = True
    observe = keep_memory

    def approve(self, memory: object, about: tuple[str, ...]) -> object:  # noqa: ARG002 - a guard's signature
        """Return the memory unchanged, since no person is asked about a peer."""
        return memory

    def judge(self, memory: object, proposal: Proposal, at: float) -> Verdict:  # noqa: ARG002 - a guard's signature
        """Pass answers, self-calls and services; a peer must be declared."""
        if proposal.route is not Route.PEER or proposal.to in proposal.sender.peers:
            return None
        return DenyVerdict(Code.ROUTING, Ground.NO_PEER.of(proposal.to, proposal.sender.name))


class DenialGuard:
    """Guard that denies messages whose fields meet a condition.

    Args:
        listeners: by name, the conditions on each payload by its root element. A payload without conditions passes: it
            answers a question of the listener.
    """

    name = "denials"
    passes_answers = True
    observe = keep_memory

    def __init__(self, listeners: Mapping[str, Mapping[str, Sequence[FieldTest]]]) -> None:
        self._listeners = listeners

    def approve(self, memory: object, about: tuple[str, ...]) -> object:  # noqa: ARG002 - a guard's signature
        """Return the memory unchanged, since no person is asked."""
        return memory

    def judge(self, memory: object, proposal: Proposal, at: float) -> Verdict:  # noqa: ARG002 - a guard's signature
        """Deny a message that meets a condition."""
        rule = self._listeners.get(proposal.to)
        tests = () if rule is None else rule.get(proposal.root, ())
        met = next((reason for one in tests if (reason := one.explain(proposal.element))), "")
        return (
            DenyVerdict(Code.DENIED, Ground.FORBIDDEN.of(proposal.sender.name, proposal.to, met))
            if met
            else None
        )


class ApprovalGuard:
    """Guard that asks a person before certain messages reach certain listeners.

    Args:
        listeners: by name, the conditions on each payload by its root element; one is enough. Without conditions every
            message to the listener is asked about. With conditions, a payload that it does not declare passes: it
            answers a question of the listener.
        limited: the listeners with sums under ``deny:``: no person is asked about their messages.
    """

    name = "approval"
    passes_answers = True
    observe = keep_memory

    def __init__(
        self,
        listeners: Mapping[str, Mapping[str, Sequence[FieldTest]]],
        limited: Collection[str] = (),
    ) -> None:
        self._listeners, self._limited = listeners, frozenset(limited)

    def judge(self, memory: object, proposal: Proposal, at: float) -> Verdict:  # noqa: ARG002 - a guard's signature
        """Ask, unless this very content was approved for the rest of the conversation."""
        rule = self._listeners.get(proposal.to)
        if rule is None:
            return None
        tests = rule.get(proposal.root, ())
        met = next((told for one in tests if (told := one.explain(proposal.element))), "")
        summed = _collect_sums(tests)
        if summed:  # each message counts, also one that was approved before
            names = proposal.sender.name, proposal.to
            reason = (
                Ground.CONDITION.of(*names, met) if met else Ground.SUM.of(*names, _describe_sums(summed))
            )
            return NeedsApproval(reason, (digest_content(proposal.to, proposal.element),))
        if rule and not met:
            return None
        about = digest_content(proposal.to, proposal.element)
        if about in _recall(memory):
            return None
        ground = Ground.CONDITION.of(proposal.sender.name, proposal.to, met) if met else None
        return NeedsApproval(ground or Ground.APPROVAL.of(proposal.sender.name, proposal.to), (about,))

    @property
    def summing(self) -> bool:
        """True when a condition is about a sum."""
        tests = (one for rule in self._listeners.values() for each in rule.values() for one in each)
        return any(one.total is not None for one in tests)

    def weigh(self, to: str, root: str, element: etree._Element) -> WeighedMessage:
        """Read the amounts of a message. A met condition, or a value that cannot be added, is for a person."""
        tests = self._listeners.get(to, {}).get(root, ())
        amounts = [
            CountedAmount(one.sum_key, amount, one.total)
            for one in tests
            if one.total is not None and (amount := one.add_up(element)) is not None
        ]
        decided = bool(amounts) and not any(one.explain(element) for one in tests)
        return WeighedMessage(tuple(amounts), decided, to in self._limited)

    def approve(self, memory: object, about: tuple[str, ...]) -> object:
        """Remember the content and its receiver."""
        return _recall(memory).union(about)

    def dump(self, memory: object) -> Mapping[str, bytes]:
        """Serialise the digests of approved messages, one per line."""
        return {_APPROVED: "\n".join(sorted(_recall(memory))).encode()}

    def load(self, parts: Mapping[str, bytes]) -> object:
        """Restore the memory that ``dump`` serialised; without it nothing is approved."""
        return frozenset(parts.get(_APPROVED, b"").decode().split())


def _describe_sums(tests: Sequence[FieldTest]) -> str:
    bounds = [(one.sum_key, one.total) for one in tests if one.total is not None]
    return " or ".join(
        f"the sum of {key} is over {each.over} within {format_duration(each.within)}" for key, each in bounds
    )


def _recall(memory: object) -> frozenset[str]:
    return memory if isinstance(memory, frozenset) else frozenset()


def digest_content(to: str, element: etree._Element) -> str:
    """Hash a receiver and a payload in canonical form."""
    return sha256(to.encode() + b"\0" + canonical(element)).hexdigest()


class OrganismFacts(NamedTuple):
    """Facts of an organism that guards are built from.

    Args:
        listeners: by name.
        codecs: the codecs of all payloads.
        trusted: the settings of provenance; None if the organism declares none.
        redact: removes secrets from a text.
    """

    listeners: Mapping[str, Listener]
    codecs: Codecs
    trusted: TrustSettings | None
    redact: Callable[[str], str]


def _make_approval(facts: OrganismFacts) -> CoreGuard | None:
    rules = {
        name: _fit(facts, name, each.approval.when)
        for name, each in facts.listeners.items()
        if each.approval is not None
    }
    limited = {
        name: {
            root: sums
            for root, tests in _fit(facts, name, each.deny).items()
            if (sums := _collect_sums(tests))
        }
        for name, each in facts.listeners.items()
        if name not in rules and any(one.total is not None for one in each.deny)
    }
    return ApprovalGuard({**rules, **limited}, limited) if rules or limited else None


def _collect_sums(tests: Sequence[FieldTest]) -> tuple[FieldTest, ...]:
    return tuple([one for one in tests if one.total is not None])


def _fit(
    facts: OrganismFacts, name: str, conditions: tuple[FieldCondition, ...]
) -> dict[str, tuple[FieldTest, ...]]:
    """Fit conditions to the payloads of a listener."""
    payloads = facts.listeners[name].payloads
    return fit_conditions((facts.codecs.of(kind).described for kind in payloads), conditions)


def _make_denials(facts: OrganismFacts) -> CoreGuard | None:
    fitted = {name: _fit(facts, name, each.deny) for name, each in facts.listeners.items() if each.deny}
    return DenialGuard(fitted) if fitted else None


def _make_lineage(facts: OrganismFacts) -> CoreGuard | None:
    if facts.trusted is None:
        return None
    from agentserver.guards.lineage.guard import LineageGuard  # with all that it needs, numpy among it

    return LineageGuard(facts.trusted, facts.listeners, facts.codecs, facts.redact)


BUILTIN_GUARDS: Mapping[str, Callable[[OrganismFacts], CoreGuard | None]] = MappingProxyType(
    {
        "peers": lambda _: PeersGuard(),
        "denials": _make_denials,
        "approval": _make_approval,
        "lineage": _make_lineage,
    }
)
"""Factory of each guard by name. It returns None if the organism does not use the guard. No guard of a program may have
one of these names.
"""


def make_builtin_guards(facts: OrganismFacts) -> tuple[CoreGuard, ...]:
    """Make every built-in guard that the organism uses."""
    return tuple(guard for make in BUILTIN_GUARDS.values() if (guard := make(facts)) is not None)
