"""Decisions about external effects: claims, answers and the verdicts of operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.core.decide.step import Step
from agentserver.core.state.ledger import MOST_EFFECTS, EffectState, LedgerEffect, make_effect_id

if TYPE_CHECKING:
    from agentserver.core.guard import Rules
    from agentserver.core.messages import ClaimRequest, ConcludeRequest, EffectVerdict, Moment
    from agentserver.core.records.outcome import Outcome
    from agentserver.core.state.conversation import Conversation


def find(conversation: Conversation, request: ClaimRequest) -> LedgerEffect | None:
    """Return the effect that a request is about, or None for a new one."""
    return conversation.ledger.get(make_effect_id(conversation.id, request.delivery.to, request.key))


def find_objection(conversation: Conversation, request: ClaimRequest) -> str:
    """Return why an effect may not be claimed, or an empty text."""
    if conversation.working_on(request.delivery) is None:
        return "the invocation has ended"
    if conversation.rights.dry is not None and request.token >= 0:  # a fork inherits answers without a token
        return "the conversation is a dry fork"
    if len(conversation.ledger) >= MOST_EFFECTS and find(conversation, request) is None:
        return f"the ledger of the conversation holds {MOST_EFFECTS} effects"
    return ""


def claim(conversation: Conversation, request: ClaimRequest, rules: Rules, moment: Moment) -> Outcome | None:
    """Claim an effect; one that is claimed already becomes unknown.

    Returns None if nothing changes: there is an objection, or the effect is done or unknown.
    """
    earlier = find(conversation, request)
    if find_objection(conversation, request) or (
        earlier is not None and earlier.state is not EffectState.CLAIMED
    ):
        return None
    delivery = request.delivery
    step = Step(conversation, rules, moment, request, delivery.request)
    if earlier is not None:
        step.put_effect(earlier._replace(state=EffectState.UNKNOWN))
        return step.finish()
    effect = LedgerEffect(
        make_effect_id(conversation.id, delivery.to, request.key),
        request.key,
        delivery.to,
        delivery.thread,
        delivery.id,
        delivery.attempt,
        request.token,
        request.passing,
        step.moment.now,
        EffectState.CLAIMED,
    )
    step.put_effect(effect)
    return step.finish()


def conclude(
    conversation: Conversation, done: ConcludeRequest, rules: Rules, moment: Moment
) -> Outcome | None:
    """Record the answer of an effect, or withdraw its claim.

    Returns None if the invocation has ended, or if the effect is done or claimed by another invocation.
    """
    delivery, key, answer, trusted = done
    effect = conversation.ledger.get(key)
    if effect is None or effect.state is EffectState.DONE or conversation.working_on(delivery) is None:
        return None
    same_attempt = (effect.delivery, effect.attempt) == (delivery.id, delivery.attempt)
    if effect.listener != delivery.to or not (same_attempt or effect.state is EffectState.UNKNOWN):
        return None
    step = Step(conversation, rules, moment, done, delivery.request)
    if answer is None:
        step.drop_effect(effect)
    else:
        label = "trusted" if trusted else "untrusted"
        _put_answered(
            step,
            effect._replace(
                state=EffectState.DONE,
                answer=answer,
                label=label,
                delivery=delivery.id,
                attempt=delivery.attempt,
            ),
        )
    return step.finish()


def settle(
    conversation: Conversation, verdict: EffectVerdict, rules: Rules, moment: Moment
) -> Outcome | None:
    """Record an operator's verdict on an effect. Returns None unless its outcome is unknown."""
    effect = conversation.ledger.get(verdict.effect)
    if effect is None or not is_unknown(conversation, effect):
        return None
    step = Step(conversation, rules, moment, verdict)
    if verdict.answer is None:
        step.drop_effect(effect, verdict.by)
    else:
        _put_answered(
            step,
            effect._replace(
                state=EffectState.DONE,
                answer=verdict.answer,
                label="untrusted",
                by=verdict.by,
                passing=False,
            ),
        )
    return step.finish()


def _put_answered(step: Step, effect: LedgerEffect) -> None:
    """Write an effect with its answer into the ledger, and into the guards' memory by its label."""
    step.put_effect(effect)
    step.memory = step.rules.note_effect(step.rules.recall(step.before), effect, step.moment.now)


def is_unknown(conversation: Conversation, effect: LedgerEffect) -> bool:
    """Check whether the outcome of an effect is unknown: its invocation has ended without an answer."""
    if effect.state is not EffectState.CLAIMED:
        return effect.state is EffectState.UNKNOWN
    thread = conversation.tree.nodes.get(effect.thread)
    first = None if thread is None or not thread.inbox else thread.inbox[0]
    return first is None or (first.id, first.attempt) != (effect.delivery, effect.attempt)
