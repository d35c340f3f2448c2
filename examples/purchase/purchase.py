"""A purchase: an agent chooses, a budget limits its orders, and a person approves each order."""

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
"""Prices in euros by article."""


@xmlify
@dataclass(frozen=True, slots=True)
class Wish:
    """Request to buy something, such as: Buy 3 of chair."""

    text: str


@xmlify
@dataclass(frozen=True, slots=True)
class Result:
    """Outcome of a request.

    Args:
        text: one sentence.
    """

    text: str


@xmlify
@dataclass(frozen=True, slots=True)
class Ask:
    """Request for the price of an article.

    Args:
        thing: by its name.
    """

    thing: str


@xmlify
@dataclass(frozen=True, slots=True)
class Price:
    """Price of an article.

    Args:
        euros: for one; 0 for an unknown article.
    """

    euros: int


@xmlify
@dataclass(frozen=True, slots=True)
class Order:
    """Order at the price of the catalogue.

    Args:
        thing: by its name.
        count: how many.
    """

    thing: str
    count: Annotated[int, Ge(1), Le(1000)]


@xmlify
@dataclass(frozen=True, slots=True)
class OrderConfirmation:
    """Confirmation of an order.

    Args:
        number: of the order.
        euros: that it cost.
    """

    number: str
    euros: int


async def look_up(payload: Ask, metadata: HandlerMetadata) -> HandlerResponse:
    """Return the price of an article."""
    return HandlerResponse.respond(Price(PRICES.get(payload.thing, 0)))


async def order(payload: Order, metadata: HandlerMetadata) -> HandlerResponse:
    """Confirm an order, with the same number if it is handled twice."""
    return HandlerResponse.respond(OrderConfirmation(invocation().idempotency_key[:8], cost(payload)))


def cost(asked: Order) -> int:
    """Compute the cost of an order in euros, by the catalogue rather than the model's figures."""
    return PRICES[asked.thing] * asked.count


@dataclass(frozen=True)
class Budget(Guard):
    """Guard that denies an order beyond the budget of the conversation."""

    euros: int

    def begin(self) -> int:
        """Begin with nothing spent."""
        return 0

    def observe(self, message: Message, memory: int) -> int:
        """Count an order on delivery, which is after a person approved it."""
        return memory + (cost(message.payload) if isinstance(message.payload, Order) else 0)

    def judge(self, message: Message, memory: int) -> Verdict:
        """Deny an order beyond the budget or of an unknown article, before a person is asked."""
        asked = message.payload
        if not isinstance(asked, Order) or memory + cost(asked) <= self.euros:
            return None
        return deny(f"{memory} of {self.euros} euros are spent, and this costs {cost(asked)}")


def model(prompt: Any) -> Completion:
    """Scripted model: it asks for the price, orders, and reports. It repeats its question for any other request."""
    messages = list(prompt.messages)
    wish = max(place for place, each in enumerate(messages) if each.role == "user")
    said = [each.content for each in messages[wish:] if each.role == "tool"]
    found = re.search(r"Buy (\d+) of (\w+)", messages[wish].content)
    count, thing = found.groups() if found else ("", "chair")
    if found is None or not said:
        return call_tool("catalogue", thing=thing)
    if len(said) == 1:
        return call_tool("till", thing=thing, count=int(count))
    outcome = said[1].partition(":")[0].replace(OrderConfirmation.__name__, "ordered")
    return call_tool("Result", text=f"{count} of {thing}: {outcome}")


def call_tool(tool: str, **arguments: Any) -> Completion:
    """Build a completion that calls one tool."""
    return Completion(calls=(ToolCall("1", tool, json.dumps(arguments)),))
