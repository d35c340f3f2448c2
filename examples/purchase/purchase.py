"""A purchase: an agent chooses, a budget bounds what it may order, and a person approves each order."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Annotated, Any

from annotated_types import Ge, Le

from agentserver import HandlerMetadata, HandlerResponse, invocation, xmlify
from agentserver.guards import Guard, Message, Verdict, deny
from agentserver.llm import Completion, ToolCall

PRICES = {"chair": 120, "desk": 450, "lamp": 35}
"""In euros, by the name of the thing."""


@xmlify
@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be bought, such as: Buy 3 of chair.

    Args:
        text: in words.
    """

    text: str


@xmlify
@dataclass(frozen=True, slots=True)
class Result:
    """What came of a wish.

    Args:
        text: one sentence.
    """

    text: str


@xmlify
@dataclass(frozen=True, slots=True)
class Ask:
    """Asks for the price of a thing.

    Args:
        thing: by its name.
    """

    thing: str


@xmlify
@dataclass(frozen=True, slots=True)
class Price:
    """The price of a thing.

    Args:
        euros: for one; 0 where there is none.
    """

    euros: int


@xmlify
@dataclass(frozen=True, slots=True)
class Order:
    """Orders things, at the price of the catalogue.

    Args:
        thing: by its name.
        count: how many.
    """

    thing: str
    count: Annotated[int, Ge(1), Le(1000)]


@xmlify
@dataclass(frozen=True, slots=True)
class Ordered:
    """An order was taken.

    Args:
        number: of the order.
        euros: that it cost.
    """

    number: str
    euros: int


async def look_up(payload: Ask, metadata: HandlerMetadata) -> HandlerResponse:
    """Tell the price of a thing."""
    return HandlerResponse.respond(Price(PRICES.get(payload.thing, 0)))


async def order(payload: Order, metadata: HandlerMetadata) -> HandlerResponse:
    """Take an order, under a number that is the same when the order is handled twice."""
    return HandlerResponse.respond(Ordered(invocation().idempotency_key[:8], cost(payload)))


def cost(asked: Order) -> int:
    """What an order costs, in euros, by the catalogue and not by the words of a model."""
    return PRICES[asked.thing] * asked.count


@dataclass(frozen=True)
class Budget(Guard):
    """Denies an order that would bring what a conversation spends above a sum."""

    euros: int

    def begin(self) -> int:
        """Nothing is spent."""
        return 0

    def observe(self, message: Message, memory: int) -> int:
        """Count an order when its listener is given it, which is after a person approved it."""
        return memory + (cost(message.payload) if isinstance(message.payload, Order) else 0)

    def judge(self, message: Message, memory: int) -> Verdict:
        """Let pass what the budget holds; the rest is denied before a person is asked. So is what has no price."""
        asked = message.payload
        if not isinstance(asked, Order) or memory + cost(asked) <= self.euros:
            return None
        return deny(f"{memory} of {self.euros} euros are spent, and this costs {cost(asked)}")


def model(prompt: Any) -> Completion:
    """A model without a key: it asks for the price, orders, and tells what came of it. Other words never satisfy it."""
    messages = list(prompt.messages)
    wish = max(place for place, each in enumerate(messages) if each.role == "user")
    said = [each.content for each in messages[wish:] if each.role == "tool"]
    found = re.search(r"Buy (\d+) of (\w+)", messages[wish].content)
    count, thing = found.groups() if found else ("", "chair")
    if found is None or not said:
        return calling("catalogue", thing=thing)
    if len(said) == 1:
        return calling("till", thing=thing, count=int(count))
    return calling("Result", text=f"{count} of {thing}: {said[1].partition(':')[0]}")


def calling(tool: str, **arguments: Any) -> Completion:
    """A completion that calls one tool."""
    return Completion(calls=(ToolCall("1", tool, json.dumps(arguments)),))
