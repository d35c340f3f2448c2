"""Forks of recorded conversations: new ones that begin with the first steps, decided again. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from agentserver.core.decide.answers import decide as decide_answer
from agentserver.core.decide.dismissal import DismissedMessage
from agentserver.core.encoding import decision_codec
from agentserver.core.encoding.decision_codec import Origin
from agentserver.core.messages import (
    AbandonedDelivery,
    ClaimRequest,
    ConcludeRequest,
    EffectVerdict,
    FinishedInvocation,
    OutsideMessage,
    RedrivenLetter,
    RejectedMessage,
    ReserveRequest,
    SettleRequest,
)
from agentserver.core.state.approvals import Answer, ApprovalAnswer
from agentserver.core.state.ledger import make_effect_id
from agentserver.history.replay import Deviation, decide_again, describe_step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from agentserver.core.encoding.history import RecordedConversation, RecordedStep
    from agentserver.core.guard import Rules
    from agentserver.core.messages import Delivery, Moment
    from agentserver.core.records.outcome import Cause, Outcome
    from agentserver.core.state.conversation import Conversation

_ID: Final = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""The form of ``Moment.id``. All ids have one length, so that places in messages stay valid."""

_IDS: Final = 64
"""Ids of a decision without messages, at most."""

_PER_MESSAGE: Final = 16
"""Ids of each of its messages and records, at most."""

_LEFT_OUT: Final = (ReserveRequest, SettleRequest, ClaimRequest, ConcludeRequest, EffectVerdict)
"""Causes of steps that a fork does not inherit: charges and external effects, except those whose answers it knows."""

_OF_NO_SERVER: Final = -1
"""Token of an effect that a fork inherits until the end of its invocation, for the label of its answer."""

BY: Final = "the fork"
"""Name with which a fork revokes approvals that cover later messages."""


class ForkError(ValueError):
    """Fork that cannot be made. The text says why."""


class ForkPlan(NamedTuple):
    """Choice of what a fork begins with.

    Args:
        at: the version of the last step.
        dry: listeners whose handlers are not called; None for a live fork.
        change: changes the message from outside of the last step.
    """

    at: int
    dry: tuple[str, ...] | None
    change: Callable[[OutsideMessage], OutsideMessage] | None = None


_UNCHANGEABLE = "a value can be changed in a message from outside, and this step is {}"


class _Names:
    """Ids of a recorded conversation, each with the new one."""

    def __init__(self) -> None:
        self._new: dict[bytes, bytes] = {}

    def add(self, old: str, new: str) -> None:
        if len(old) == len(new):
            self._new[old.encode()] = new.encode()

    def add_moment(self, old: Moment, new: Moment, outcome: Outcome) -> None:
        """Add the ids that a decision can have made."""
        messages = len(outcome.added) + len(outcome.records) + len(outcome.replies)
        for number in range(_IDS + _PER_MESSAGE * messages):
            self.add(old.id(number), new.id(number))

    def put_in(self, data: bytes) -> bytes:
        """Replace the old ids in a text."""
        return _ID.sub(lambda found: self._new.get(found[0], found[0]), data)


def fork(
    recorded: RecordedConversation, plan: ForkPlan, rules: Rules, moments: Callable[[], Moment]
) -> Iterator[Outcome]:
    """Decide the first steps of a conversation for a new one.

    Approvals of messages that were handled by then stay valid for these alone. Other approvals, charges, external
    effects and idempotency keys are not inherited.

    Args:
        recorded: the conversation.
        plan: of the fork.
        rules: to decide by.
        moments: the present time, with another seed each.

    Raises ForkError, and UnreadableError.
    """
    steps = [step for step in recorded.steps if step.version <= plan.at]
    if not steps or steps[-1].version != plan.at:
        raise ForkError(f"it has no step {plan.at}, but steps 1 to {recorded.steps[-1].version}")
    names, first, beginning = _Names(), moments(), recorded.beginning
    rights = beginning.rights._replace(dry=plan.dry)
    names.add(beginning.id, first.id(0))
    names.add(beginning.root, first.id(1))
    old, new = (
        beginning.conversation(),
        Origin(first.id(0), beginning.principal, first.id(1), rights).conversation(),
    )
    handled, answered = _list_handled(recorded, steps, rules), _list_answered(recorded, steps, rules)
    deliveries: dict[str, Delivery] = {}
    for step in steps:
        again, cause = decide_again(recorded, step, old, rules), recorded.cause(step, rules)
        if isinstance(again, Deviation):
            raise ForkError(f"it would be decided differently today: {again}")
        if step is steps[-1] and plan.change is not None and not isinstance(cause, OutsideMessage):
            raise ForkError(_UNCHANGEABLE.format(describe_step(cause)))
        if _is_inherited(cause, old, handled, answered):
            moment = moments()
            names.add_moment(step.moment, moment, again)
            if isinstance(cause, OutsideMessage | RejectedMessage | DismissedMessage | RedrivenLetter):
                names.add(cause.request, moments().id(0))
            renamed = _rename(step, names, deliveries, rules, new)
            if step is steps[-1] and plan.change is not None and isinstance(renamed, OutsideMessage):
                renamed = plan.change(renamed)
            outcome = _decide(new, renamed, rules, moment, step)
            yield outcome
            new = outcome.conversation
            deliveries |= {one.id: one for one in outcome.added}
        old = again.conversation
    if new.closed:
        raise ForkError(f"it has ended at step {plan.at}: choose an earlier one")
    yield from _revoke_lasting(new, rules, moments)


def _revoke_lasting(new: Conversation, rules: Rules, moments: Callable[[], Moment]) -> Iterator[Outcome]:
    """Revoke the approvals that cover later messages."""
    for one in rules.list_lasting(new):
        denial = ApprovalAnswer(one.name_in(new.id), one.id, Answer.DENY, BY)
        outcome = decide_answer(new, denial, rules, moments())
        assert outcome is not None
        yield outcome
        new = outcome.conversation


def list_steps(recorded: RecordedConversation, rules: Rules) -> Iterator[tuple[int, str]]:
    """Yield the version of each step, and its subject."""
    for step in recorded.steps:
        yield step.version, describe_step(recorded.cause(step, rules))


def _list_handled(recorded: RecordedConversation, steps: list[RecordedStep], rules: Rules) -> frozenset[str]:
    causes = (recorded.cause(step, rules) for step in steps)
    return frozenset(
        one.delivery.id for one in causes if isinstance(one, FinishedInvocation | AbandonedDelivery)
    )


def _list_answered(recorded: RecordedConversation, steps: list[RecordedStep], rules: Rules) -> frozenset[str]:
    causes = (recorded.cause(step, rules) for step in steps)
    return frozenset(
        one.effect for one in causes if isinstance(one, ConcludeRequest) and one.answer is not None
    )


def _is_inherited(
    cause: Cause, before: Conversation, handled: frozenset[str], answered: frozenset[str]
) -> bool:
    """Check whether a fork repeats a step. An approval or the answer of an effect counts if its message was handled."""
    if isinstance(cause, ClaimRequest) and cause.delivery.id in handled:
        return make_effect_id(before.id, cause.delivery.to, cause.key) in answered
    if isinstance(cause, ConcludeRequest) and cause.delivery.id in handled:
        return cause.answer is not None
    if isinstance(cause, ApprovalAnswer) and cause.answer is not Answer.DENY:
        pending = {one.id: one.delivery.id for one in before.approvals()}
        return pending.get(cause.approval, "") in handled
    return not isinstance(cause, _LEFT_OUT)


def _rename(
    step: RecordedStep, names: _Names, deliveries: Mapping[str, Delivery], rules: Rules, new: Conversation
) -> Cause:
    """Read the cause of a step with the new ids."""
    messages = [names.put_in(message) for message in step.gone_out()]
    cause = decision_codec.load_cause(names.put_in(step.cause), deliveries, messages, rules)
    if isinstance(cause, ApprovalAnswer):
        asked = next((one for one in new.approvals() if one.id == cause.approval), None)
        lasts = asked is not None and rules.offers_lasting(asked.questions)
        answer = Answer.ONCE if cause.answer is Answer.ALWAYS and not lasts else cause.answer
        return cause._replace(digest=cause.digest if asked is None else asked.digest, answer=answer)
    if isinstance(cause, OutsideMessage | RejectedMessage | DismissedMessage):
        return cause._replace(key=None)
    if isinstance(cause, ClaimRequest):
        return cause._replace(token=_OF_NO_SERVER, passing=True)
    if isinstance(cause, ConcludeRequest):
        effects = (
            one.id for one in new.ledger.values() if one.delivery == cause.delivery.id and not one.answer
        )
        return cause._replace(effect=next(effects, cause.effect))
    return cause


def _decide(new: Conversation, cause: Cause, rules: Rules, moment: Moment, step: RecordedStep) -> Outcome:
    try:
        return decision_codec.decide(new, cause, rules, moment)
    except LookupError as error:
        raise ForkError(
            f"step {step.version} ({describe_step(cause)}) cannot be repeated: {error.args[0]}"
        ) from None
