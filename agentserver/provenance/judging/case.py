"""State of one judgement: the call, the ledger, the policy and the rule of each argument."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from agentserver.provenance.confidentiality.origin import record_of
from agentserver.provenance.copies import change
from agentserver.provenance.evidence.labels import Role, means, split_name, strip_indices
from agentserver.provenance.evidence.leaves import format_text
from agentserver.provenance.evidence.readings import AMOUNT, find_said_days, list_currencies
from agentserver.provenance.policy.declarations import Effect, PlanSource, Rule, list_alternatives
from agentserver.provenance.policy.forms import CHOICE, derive_role
from agentserver.provenance.request.asking import only_asks_for_information
from agentserver.provenance.request.languages import is_common
from agentserver.provenance.request.limits import DayLimits, Limits, find_day_limits, find_limits
from agentserver.provenance.request.trusted_words import cut_last_questions, has_form_of, list_telling_words
from agentserver.provenance.verdict import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from enum import Enum

    from agentserver.provenance.evidence.destinations import Destination
    from agentserver.provenance.evidence.labels import Call, Leaf, Text
    from agentserver.provenance.evidence.readings import SaidDays
    from agentserver.provenance.ledger import Ledger
    from agentserver.provenance.policy.declarations import ArgumentRule, ListenerClass, Policy
    from agentserver.provenance.policy.plan import Plan
    from agentserver.provenance.request.trusted_words import TrustedWords
    from agentserver.provenance.verdict import Evidence


SHORT: Final = 3
"""Letters of a word of a sink's name that an order has as it is; a longer one may end otherwise."""
TEXTS: Final = 64
"""Maximum texts that a conversation may have read for one of them to decide what the request leaves open."""
READ: Final = 2048
"""Maximum characters of the named documents in which an amount or a day is looked for, at 1 to 13 µs for each."""

RECORDS: Final = 512
"""Maximum records among which those of a call are looked for."""


_DATE: Final = re.compile(
    r"[A-Z][a-z]{2}, [0-3]?\d [A-Z][a-z]{2} \d{4} \d\d:\d\d(?::\d\d)? (?:[+-]\d{4}|GMT)"
)
"""Date of a letter's header (RFC 5322)."""


class Argument(NamedTuple):
    """Scalar argument of a call, with its rule and its text."""

    leaf: Leaf
    rule: ArgumentRule
    body: str


def list_arguments(policy: Policy, call: Call) -> tuple[Argument, ...]:
    """List the arguments of a call that are not blank, with their rules."""
    find_rule = policy.argument_rule if policy.rules_arguments(call) else policy.derive_rule
    return tuple(
        [
            Argument(leaf, find_rule(call, leaf), body)
            for leaf in call.arguments
            if (body := format_text(leaf.value)).strip()
        ]
    )


class Case:
    """Call under judgement, for the duration of one judgement.

    Args:
        ledger: what the conversation has seen.
        policy: the declared policy.
        call: the call to judge.
        arguments: its arguments, if they are known.
    """

    def __init__(
        self, ledger: Ledger, policy: Policy, call: Call, arguments: tuple[Argument, ...] | None = None
    ) -> None:
        self.ledger, self.policy, self.call = ledger, policy, call
        self.decision_only = False
        self.places: dict[int, tuple[Argument, tuple[Destination, ...]]] = {}
        self.left: dict[tuple[int, Enum], tuple[Argument, bool]] = {}
        self.listener: ListenerClass = policy.classify(call.sink)
        self.arguments = list_arguments(policy, call) if arguments is None else arguments
        self.receivers = [each for each in self.arguments if each.rule.role is Role.DESTINATION]
        """The arguments that say who receives."""
        self.content = [each for each in self.arguments if each.rule.role is Role.PAYLOAD]
        """The arguments whose text is sent."""
        self.plan: Plan | None = None if policy.plan is PlanSource.OFF else ledger.plan
        """The plan that applies to this call, if any."""
        self.exposed: bool = call.exposed and ledger.tainted
        """True when untrusted text may have influenced something in the call."""
        self.steered: bool = self.exposed and not call.put_in
        """True when untrusted text may have caused the call itself, so that all of it is suspect."""

    def copy_for_decision(self) -> Case:
        """Copy the case for a caller that needs the decision but no findings."""
        case = Case.__new__(Case)
        case.__dict__.update(self.__dict__)
        case.decision_only = True
        return case

    def copy_for_words(self, request: TrustedWords) -> Case:
        """Copy the case with other words of the principal."""
        return Case(change(self.ledger, asked=request), self.policy, self.call, self.arguments)

    @cached_property
    def _by_leaf(self) -> dict[int, Argument]:
        return {id(argument.leaf): argument for argument in self.arguments}

    def find_argument(self, leaf: Leaf | None) -> Argument | None:
        """Look up the argument of a leaf; None for no leaf or a blank one."""
        return None if leaf is None else self._by_leaf.get(id(leaf))

    def find_role(self, leaf: Leaf) -> Role:
        """Look up the role of an argument."""
        known = self._by_leaf.get(id(leaf))
        return (self.policy.argument_rule(self.call, leaf) if known is None else known.rule).role

    def is_of_source(self, text: Text) -> bool:
        """Check whether a text is from a source, so that a stranger may have written it."""
        return self.policy.classify(text.origin.source).source

    def is_of_trusted(self, text: Text) -> bool:
        """Check whether a text is from a listener that the operator trusts and that acts on nothing."""
        source = text.origin.source
        listener = self.policy.classify(source)
        is_passive = not (listener.source or listener.sink)
        return is_passive and any(means(entry, source) for entry in self.policy.trusted)

    def is_listed_option(self, argument: Argument) -> bool:
        """Check whether a choice is one of the values that the schema lists, and no other argument needs it as a guard.

        Next to a receiver it may be a grant, and next to an argument that a line loosens it says which one this is.
        """
        listed = list_alternatives(self.call, argument.leaf)
        return bool(listed) and not (self.receivers or self._is_loosened)

    @cached_property
    def _is_loosened(self) -> bool:
        """True if a line calls an argument content whose form asks for an origin, such as an address."""
        content = {Role.PAYLOAD, Role.INERT}
        return any(
            each.rule.declared and each.rule.role in content and derive_role(each.leaf.value) not in content
            for each in self.arguments
        )

    def is_warranted(self, argument: Argument) -> bool:
        """Check whether the plan sanctions an argument, or its type filled in the value."""
        if argument.leaf.path in self.call.filled:
            return True
        return self.plan is not None and self.plan.warrants(self.ledger, self.call, argument.leaf) is not None

    @cached_property
    def read_texts(self) -> Sequence[Text]:
        """All untrusted texts of the conversation; empty if there are more than are looked at, or than are tracked."""
        texts = self.ledger.texts
        return () if self.ledger.overflow or len(texts) > TEXTS else texts[:TEXTS]

    @cached_property
    def records(self) -> Sequence[Text]:
        """The first records of the conversation, up to as many as are looked at."""
        return self.ledger.records.entries[:RECORDS]

    @cached_property
    def chosen_things(self) -> str:
        """The short fields of the records of trusted listeners that the principal chose, as one text."""
        return " | ".join(text.body for text in self.chosen_records if len(text.body) <= CHOICE)

    @cached_property
    def fields_of_records(self) -> Mapping[tuple[str, int, str], Sequence[str]]:
        """The fields of the texts and records that are looked at, by the record that they are of."""
        found: dict[tuple[str, int, str], list[str]] = {}
        for text in (*self.read_texts, *self.records):
            found.setdefault(record_of(text.origin), []).append(text.body)
        return found

    @cached_property
    def chosen_records(self) -> Sequence[Text]:
        """The fields that the principal chose of the records of trusted listeners."""
        return [text for text in self.records if text.chosen and not self.is_of_source(text)]

    @cached_property
    def document_names(self) -> frozenset[str]:
        """The names by which the principal named documents that were read."""
        return frozenset(name for text in self.read_texts if text.asked for name in text.names)

    @property
    def has_all_records(self) -> bool:
        """True if the conversation has no more records than are looked at."""
        return len(self.ledger.records.entries) <= RECORDS

    @cached_property
    def said_amounts(self) -> frozenset[str]:
        """The keys of the amounts of the principal's words."""
        said = self.ledger.asked.read_values(self.policy.conventions)
        return frozenset(key for key in said if key.startswith(AMOUNT))

    @cached_property
    def said_currencies(self) -> frozenset[str]:
        """The codes of the currencies that the principal names."""
        return self.ledger.asked.derive_once(_list_said_currencies)

    @cached_property
    def named_text(self) -> str:
        """All documents that the principal named as one text; empty if they or the conversation are too long."""
        return "\n".join(self.named_texts)

    @cached_property
    def named_texts(self) -> tuple[str, ...]:
        """The bodies of all documents that the principal named; empty if they or the conversation are too long."""
        return tuple([text.body for text in self.named_documents])

    @cached_property
    def named_documents(self) -> tuple[Text, ...]:
        """The texts of all documents that the principal named, without dates of letters; empty if they are too long."""
        asked = (text for text in self.read_texts if text.asked and not self._is_only_asked_about(text))
        named = tuple([text for text in asked if not _DATE.fullmatch(text.body.strip())])
        return named if sum(len(text.body) for text in named) <= READ else ()

    def _is_only_asked_about(self, text: Text) -> bool:
        """Check whether only the questions that end a request name a document, so that no call is left to it."""
        before = self._before_questions
        if before is None or not text.names:
            return False
        words = list_telling_words(" ".join(before.audible))
        return not any(before.mentions_plainly(name) or has_form_of(name, words) for name in text.names)

    @cached_property
    def _before_questions(self) -> TrustedWords | None:
        """The principal's words up to the last order; None if they do not end with questions about something else."""
        return self.ledger.asked.derive_once(cut_last_questions)

    @cached_property
    def orders(self) -> tuple[TrustedWords, ...]:
        """The sentences of the principal that are no question, each alone."""
        return tuple(self.ledger.asked.list_orders())

    @cached_property
    def speaks_of_sink(self) -> bool:
        """True when an order of the principal has a word of the sink's name, such as *a room* of ``book_room``."""
        words = split_name(self.call.sink)
        names = list_telling_words(" ".join(words))
        short = [word for word in words if len(word) == SHORT and word.isalpha() and not is_common(word)]
        return any(
            any(order.mentions(word, any_case=True) for word in short)
            or any(has_form_of(said, names) for said in order.audible)
            for order in self.orders
        )

    @cached_property
    def named_days(self) -> tuple[SaidDays, ...]:
        """The days and times of day of each document that the principal named, and of each of its fields."""
        known = frozenset({"", "en", *self.policy.conventions})
        return tuple([find_said_days(text.body, known) for text in self.named_documents])

    @cached_property
    def limits(self) -> Limits | None:
        """The limits and the amounts of the principal's words."""
        return self.ledger.asked.derive_once(find_limits)

    @cached_property
    def day_limits(self) -> DayLimits:
        """The days of the principal's words that are limits."""
        return self.ledger.asked.derive_once(find_day_limits)

    @cached_property
    def orders_nothing(self) -> bool:
        """True when the principal only asks for information."""
        return self.ledger.asked.derive_once(only_asks_for_information)

    def is_suspect(self, argument: Argument) -> bool:
        """Check whether untrusted text may have influenced an argument, so that it needs an author."""
        return self.exposed and (self.steered or argument.leaf.path in self.call.put_in)

    @cached_property
    def reports_only(self) -> bool:
        """True when untrusted content is only reported and affects no decision."""
        effects = {self.policy.effect_of(rule, self.call.sink) for rule in (Rule.CONTENT, Rule.LINK)}
        return effects.isdisjoint({Effect.BLOCK, Effect.ASK})

    def is_settled(self, *rules: Rule) -> bool:
        """Check whether only the decision is needed and all these rules have the same effect on it."""
        return (
            self.decision_only and len({self.policy.effect_of(rule, self.call.sink) for rule in rules}) == 1
        )

    def make_finding(
        self, rule: Rule, argument: Argument | None, detail: str = "", evidence: Evidence | None = None
    ) -> Finding:
        """Make a finding about an argument, or about the call as a whole."""
        effect = self.policy.effect_of(rule, self.call.sink)
        if argument is None:
            return Finding(rule, effect, "", "", None, detail, evidence)
        path = strip_indices(argument.leaf.path)
        return Finding(rule, effect, path, argument.body, argument.rule.role, detail, evidence)


def _list_said_currencies(texts: Iterable[str]) -> frozenset[str]:
    return frozenset[str]().union(*map(list_currencies, texts))
