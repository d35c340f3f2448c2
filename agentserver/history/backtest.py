"""Backtest of a provenance policy: its verdicts on the calls of recorded conversations, next to those of another.

Each call is judged in its recorded state, also after a call that the policy would have stopped.
"""

from __future__ import annotations

import re
from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from agentserver.core.drafts.routing import Route
from agentserver.core.guard import DenyVerdict, NeedsApproval
from agentserver.findings import Findings
from agentserver.history.policy_diff import ComparedStep, compare_steps
from agentserver.payload.names import local
from agentserver.provenance.evidence.labels import strip_indices

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

    from agentserver.core.drafts.routing import Proposal
    from agentserver.core.encoding.history import RecordedConversation
    from agentserver.core.guard import Rules, Verdict


_LINE: Final = re.compile(r"(?P<mark>attack|benign)\s+(?P<id>\S+)(?:\s+(?P<step>[0-9]{1,9}))?")


class LabelError(ValueError):
    """Raised for a file of marks with a mistake. Its message names file and line."""


class Labels(NamedTuple):
    """Marks by the conversations that they begin with; unmarked conversations are honest.

    Args:
        attacks: beginnings of the ids of conversations that are one attack each.
        steps: steps that are attacks, by the beginning of the id.
        benign: beginnings of the ids that are marked as honest.
    """

    attacks: frozenset[str] = frozenset()
    steps: tuple[tuple[str, int], ...] = ()
    benign: frozenset[str] = frozenset()

    def find_attacks_in(
        self, conversation: str, known: frozenset[int] | None = frozenset()
    ) -> frozenset[int] | None:
        """Return the steps of a conversation that are attacks; None if all of it is one.

        Args:
            conversation: its id.
            known: the marks of the history itself, for a conversation without a mark here.
        """
        if any(conversation.startswith(one) for one in self.attacks):
            return None
        steps = frozenset(step for begins, step in self.steps if conversation.startswith(begins))
        if steps or any(conversation.startswith(one) for one in self.benign):
            return steps
        return known

    def list_unused(self, conversations: Iterable[str]) -> list[str]:
        """List the marks that fit none of these conversations."""
        known = tuple(conversations)
        marks = sorted({*self.attacks, *self.benign, *(begins for begins, _ in self.steps)})
        return [mark for mark in marks if not any(one.startswith(mark) for one in known)]


def read_labels(text: str, name: str) -> Labels:
    """Read marks, one a line: ``attack ID``, ``attack ID STEP`` or ``benign ID``. Raises LabelError.

    Args:
        text: the file's text; empty lines and what follows ``#`` count for nothing.
        name: the file's name for error messages.
    """
    attacks: set[str] = set()
    benign: set[str] = set()
    steps: list[tuple[str, int]] = []
    for number, line in enumerate(text.splitlines(), 1):
        content = line.partition("#")[0].strip()
        found = _LINE.fullmatch(content)
        if not content:
            continue
        if found is None or (found["mark"] == "benign" and found["step"]):
            raise LabelError(f"{name}:{number}: write attack ID, attack ID STEP or benign ID")
        if found["step"]:
            steps.append((found["id"], int(found["step"])))
        else:
            (attacks if found["mark"] == "attack" else benign).add(found["id"])
    both = sorted(attacks & benign)
    if both:
        raise LabelError(f"{name}: {both[0]} is marked as attack and as benign")
    return Labels(frozenset(attacks), tuple(steps), frozenset(benign))


class CallOutcome(StrEnum):
    """Fate of a call under a policy."""

    ALLOWED = "allowed"
    ASKED = "asked"
    REFUSED = "refused"


class Cause(NamedTuple):
    """Rule that stopped a call.

    Args:
        rule: the key of the rule.
        field: the argument at which it fired; empty for the call as a whole.
    """

    rule: str
    field: str = ""


class PolicyVerdict(NamedTuple):
    """Verdict of one policy on a call.

    Args:
        fate: of the call.
        causes: the rules that stopped it, each once.
    """

    fate: CallOutcome
    causes: tuple[Cause, ...] = ()

    @property
    def stops(self) -> bool:
        """True if the call does not run, or not without a person."""
        return self.fate is not CallOutcome.ALLOWED


ALLOWED: Final = PolicyVerdict(CallOutcome.ALLOWED)

OTHER_RULE: Final = "other"
"""Rule of a refusal without findings: a plan, a quarantine, a view."""

SAME_RESULT: Final = Cause("same result")
"""Cause of a refusal with another message: of one result all messages are sent, or none."""


class JudgedCall(NamedTuple):
    """Call with the verdicts on it.

    Args:
        step: its number in the conversation.
        sender: the listener that sends it; empty for the agent of a foreign trace.
        listener: the listener or tool that is called.
        new: the verdict of the policy that is tried.
        current: the verdict of the policy in force, if any.
    """

    step: int
    sender: str
    listener: str
    new: PolicyVerdict
    current: PolicyVerdict | None = None

    @property
    def differs(self) -> bool:
        """True if the policy in force treats it otherwise."""
        return self.current is not None and self.current.fate is not self.new.fate


class JudgedConversation(NamedTuple):
    """Conversation with the verdicts on its calls.

    Args:
        id: its id, or the name of its file.
        calls: in order.
        attacks: numbers of the steps of its marked attacks; None if the whole conversation is one attack.
        unjudged: why the rest of it could not be judged; empty if all was.
    """

    id: str
    calls: tuple[JudgedCall, ...]
    attacks: frozenset[int] | None = frozenset()
    unjudged: str = ""


class TriedPolicy(NamedTuple):
    """Rules with a policy that is tried.

    Args:
        rules: the rules; their guard of provenance writes to ``rulings``.
        rulings: messages with the verdicts on them, since they were last cleared.
    """

    rules: Rules
    rulings: list[tuple[Proposal, Verdict]]


class PolicyTrial(NamedTuple):
    """Policy that is ready to be tried on conversations of one organism.

    Args:
        mode: the mode that it is judged in.
        rules: those that the conversations were decided by.
        new: the policy that is tried.
        current: the policy in force, if any.
    """

    mode: str
    rules: Rules
    new: TriedPolicy
    current: TriedPolicy | None

    def judge(self, recorded: RecordedConversation, over: Callable[[], bool]) -> JudgedConversation:
        """Judge a conversation, all of whose calls count as honest; ``over`` is asked before each step."""
        return judge_conversation(recorded, self.rules, self.new, self.current, over=over)


STOPPED_TRIAL: Final = "the trial ended before it was judged to its end"


def judge_conversation(
    recorded: RecordedConversation,
    rules: Rules,
    new: TriedPolicy,
    current: TriedPolicy | None,
    attacks: frozenset[int] | None = frozenset(),
    over: Callable[[], bool] = lambda: False,
) -> JudgedConversation:
    """Judge the calls of a recorded conversation by a policy, and by the one in force.

    Args:
        recorded: the conversation.
        rules: those that it was decided by.
        new: the policy that is tried.
        current: the policy in force, if any.
        attacks: as of ``JudgedConversation``.
        over: asked before each step; True leaves the rest unjudged.
    """
    tried = (new,) if current is None else (new, current)
    calls: list[JudgedCall] = []
    found = compare_steps(recorded, rules, [one.rules for one in tried])
    while True:
        for one in tried:
            one.rulings.clear()
        if over():
            return JudgedConversation(recorded.beginning.id, tuple(calls), attacks, STOPPED_TRIAL)
        compared = next(found, None)
        if compared is None:
            return JudgedConversation(recorded.beginning.id, tuple(calls), attacks)
        if not isinstance(compared, ComparedStep):
            return JudgedConversation(recorded.beginning.id, tuple(calls), attacks, str(compared))
        found_by = [dict(_iter_verdicts(one.rulings)) for one in tried]
        calls += _judge_step(compared.step.version, found_by, rules.blueprint.listeners)


class _Message(NamedTuple):
    sender: str
    listener: str
    root: str
    place: int


class _RoutedVerdict(NamedTuple):
    verdict: PolicyVerdict
    route: Route


def _iter_verdicts(rulings: Iterable[tuple[Proposal, Verdict]]) -> Iterator[tuple[_Message, _RoutedVerdict]]:
    for proposal, verdict in rulings:
        message = _Message(proposal.sender.name, proposal.to, local(proposal.root), proposal.place)
        yield message, _RoutedVerdict(_read_verdict(verdict), proposal.route)


def _judge_step(
    version: int, found: Sequence[Mapping[_Message, _RoutedVerdict]], listeners: Container[str]
) -> Iterator[JudgedCall]:
    """Pair the verdicts of the policies on each message. Calls of listeners count, and other messages if stopped."""
    refusing = [any(one.verdict.fate is CallOutcome.REFUSED for one in each.values()) for each in found]
    for message, route in {each: one.route for policy in found for each, one in policy.items()}.items():
        called = route in _CALLS and message.sender in listeners
        verdicts = [
            _find_verdict(policy, message, with_another=called and refuses)
            for policy, refuses in zip(found, refusing, strict=True)
        ]
        if called or any(one.stops for one in verdicts):
            current = verdicts[1] if len(verdicts) > 1 else None
            yield JudgedCall(version, message.sender, message.listener, verdicts[0], current)


_CALLS: Final = frozenset({Route.PEER, Route.SELF})


def _find_verdict(
    policy: Mapping[_Message, _RoutedVerdict], message: _Message, *, with_another: bool
) -> PolicyVerdict:
    """Find the verdict on a message, which may be refused with another one of its result."""
    own = policy[message].verdict if message in policy else ALLOWED
    if with_another and own.fate is not CallOutcome.REFUSED:
        return PolicyVerdict(CallOutcome.REFUSED, (SAME_RESULT,))
    return own


def _read_verdict(verdict: Verdict) -> PolicyVerdict:
    if isinstance(verdict, DenyVerdict):
        return PolicyVerdict(CallOutcome.REFUSED, _list_causes(verdict.reason, ("block",)))
    if isinstance(verdict, NeedsApproval):
        return PolicyVerdict(CallOutcome.ASKED, _list_causes(verdict.question, ("block", "ask")))
    return ALLOWED


def _list_causes(reason: object, effects: tuple[str, ...]) -> tuple[Cause, ...]:
    if not isinstance(reason, Findings):
        return (Cause(OTHER_RULE),)
    found = (Cause(one.rule, strip_indices(one.argument)) for one in reason.findings if one.effect in effects)
    return tuple(dict.fromkeys(found)) or (Cause(OTHER_RULE),)


SHOWN: Final = 50
"""Stopped calls that a report lists; further ones are counted."""


class StoppedCall(NamedTuple):
    """Stopped or differing call of a report."""

    conversation: str
    call: JudgedCall
    attack: bool


class ConversationCounts(NamedTuple):
    """Counts of one conversation.

    Args:
        id: as of ``JudgedConversation``.
        calls: judged calls.
        stopped: calls that do not run, or not without a person.
        unjudged: as of ``JudgedConversation``.
    """

    id: str
    calls: int
    stopped: int
    unjudged: str = ""


class Tally:
    """Counts of a backtest, built conversation by conversation.

    A conversation that as a whole is an attack counts as one attack, stopped if one of its calls is. None of its calls
    counts as honest.
    """

    def __init__(self) -> None:
        self.conversations: list[ConversationCounts] = []
        """Counts of each conversation, also of a file that could not be read."""
        self.calls = self.honest = 0
        self.attacks = self.stopped_attacks = 0
        self.lost_attacks = self.newly_stopped = 0
        self.new: Counter[CallOutcome] = Counter()
        self.current: Counter[CallOutcome] = Counter()
        self.stopped: Counter[CallOutcome] = Counter()
        """Honest calls that do not run, or not without a person."""
        self.rules: Counter[tuple[str, CallOutcome]] = Counter()
        self.listeners: Counter[tuple[str, CallOutcome]] = Counter()
        self.fields: Counter[tuple[str, str, str]] = Counter()
        """Stopped calls by listener, field and rule."""
        self.compared = False
        self.shown: list[StoppedCall] = []
        """The first stopped or differing calls."""
        self.notable = 0
        """Number of all stopped or differing calls."""

    @property
    def unjudged(self) -> int:
        """Number of conversations and files that could not be judged, or not to their end."""
        return sum(bool(one.unjudged) for one in self.conversations)

    def take(self, judged: JudgedConversation) -> None:
        """Count a conversation."""
        stops = sum(call.new.stops for call in judged.calls)
        self.conversations.append(ConversationCounts(judged.id, len(judged.calls), stops, judged.unjudged))
        for call in judged.calls:
            attack = judged.attacks is None or call.step in judged.attacks
            self._count(call)
            if not attack:
                self._count_honest(call)
            if call.new.stops or call.differs:
                self.notable += 1
                if len(self.shown) < SHOWN:
                    self.shown.append(StoppedCall(judged.id, call, attack))
        if judged.attacks is None:
            self._count_attack(judged.calls)
            return
        for step in judged.attacks:
            self._count_attack([call for call in judged.calls if call.step == step])

    def _count(self, call: JudgedCall) -> None:
        self.calls += 1
        self.new[call.new.fate] += 1
        self.listeners[call.listener, call.new.fate] += 1
        if call.current is not None:
            self.compared = True
            self.current[call.current.fate] += 1
        for rule in dict.fromkeys(cause.rule for cause in call.new.causes):
            self.rules[rule, call.new.fate] += 1
        for cause in call.new.causes:
            self.fields[call.listener, cause.field, cause.rule] += 1

    def _count_honest(self, call: JudgedCall) -> None:
        self.honest += 1
        self.stopped[call.new.fate] += call.new.stops
        self.newly_stopped += call.new.stops and call.current is not None and not call.current.stops

    def _count_attack(self, calls: Sequence[JudgedCall]) -> None:
        self.attacks += 1
        caught = any(call.new.stops for call in calls)
        self.stopped_attacks += caught
        self.lost_attacks += not caught and any(
            call.current is not None and call.current.stops for call in calls
        )
