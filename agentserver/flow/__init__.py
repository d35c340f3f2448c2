"""Durable functions: messages as awaits, recorded so that a restart repeats them."""

from agentserver.effects import NOT_DONE, EffectUnknown, NotDone
from agentserver.flow.errors import (
    Denied,
    DivergedError,
    FlowError,
    NotDurableError,
    Refused,
    TimedOut,
    WrongReplyError,
)
from agentserver.flow.requests import ask, changed, gather, now, once, random, sleep, tell, uuid, wait_for

__all__ = [
    "NOT_DONE",
    "Denied",
    "DivergedError",
    "EffectUnknown",
    "FlowError",
    "NotDone",
    "NotDurableError",
    "Refused",
    "TimedOut",
    "WrongReplyError",
    "ask",
    "changed",
    "gather",
    "now",
    "once",
    "random",
    "sleep",
    "tell",
    "uuid",
    "wait_for",
]
