"""The payloads and handlers of the organism that hop.py and scale.py measure.

Owns the work of a delivery, which is next to nothing. The meter is set by the benchmark before the server starts.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, replace
from string import ascii_lowercase
from typing import TYPE_CHECKING

from agentserver import HandlerMetadata, HandlerResponse, xmlify

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

CHAIN = 10
FAN = 100


@xmlify
@dataclass(frozen=True)
class Order:
    """The message of every measurement: four fields, a text of given length among them."""

    note: str
    count: int
    price: float
    urgent: bool


@xmlify
@dataclass(frozen=True)
class Items:
    """A message of many elements."""

    item: list[str]


class Meter:
    """Counts deliveries. ``hit`` is called for each; ``enough`` when the last that counts has passed."""

    def __init__(self, hit: Callable[[], bool], enough: Callable[[], None]) -> None:
        self.hit, self.enough = hit, enough


meters: list[Meter] = []


def hit() -> bool:
    """Count a delivery; False when there have been enough."""
    if meters[0].hit():
        return True
    meters[0].enough()
    return False


def next_message(order: Order | Items) -> Order | Items:
    """The next message of a row."""
    return (
        order if isinstance(order, Items) else replace(order, count=order.count + 1, urgent=not order.urgent)
    )


async def ask(order: Order | Items, _metadata: HandlerMetadata) -> HandlerResponse | None:
    """Forward to the one that answers, endlessly."""
    return HandlerResponse(next_message(order), "answer") if hit() else None


async def answer(order: Order | Items, _metadata: HandlerMetadata) -> HandlerResponse | None:
    """Answer the caller."""
    return HandlerResponse.respond(next_message(order)) if hit() else None


async def ask_dirty(order: Order | Items, metadata: HandlerMetadata) -> HandlerResponse | None:
    """Read a page at first, then do as ``ask`` does."""
    if metadata.from_id in {"page", "answer"}:
        return await ask(order, metadata)
    return HandlerResponse(order, "page")


class NewWords:
    """Words that nobody said before, out of a vocabulary of made-up ones.

    Args:
        characters: of all of them together.
    """

    def __init__(self, characters: int) -> None:
        chosen = random.Random(1)
        vocabulary = ["".join(chosen.choices(ascii_lowercase, k=chosen.randint(2, 9))) for _ in range(20_000)]
        self._text = " ".join(chosen.choices(vocabulary, k=characters // 6))
        self._next = 0

    def take(self, length: int) -> str:
        """Take the next ``length`` characters. Raises ValueError at the end."""
        start, self._next = self._next, self._next + length
        if self._next > len(self._text):
            raise ValueError("the measurement needs more words")
        return self._text[start : self._next]


new_words: list[NewWords] = []


def said_anew(order: Order | Items) -> Order | Items:
    """The same message with other words."""
    return replace(order, note=new_words[0].take(len(order.note))) if isinstance(order, Order) else order


async def ask_new(order: Order | Items, _metadata: HandlerMetadata) -> HandlerResponse | None:
    """Send a new text to the one that answers, endlessly."""
    return HandlerResponse(said_anew(order), "answer_new") if hit() else None


async def answer_new(order: Order | Items, _metadata: HandlerMetadata) -> HandlerResponse | None:
    """Answer the caller with something new."""
    return HandlerResponse.respond(said_anew(order)) if hit() else None


async def page(order: Order, _metadata: HandlerMetadata) -> HandlerResponse:
    """Answer with a page that nobody has read before."""
    return HandlerResponse.respond(replace(order, note=new_words[0].take(order.count)))


async def read(order: Order, metadata: HandlerMetadata) -> HandlerResponse:
    """Read a page of ``count`` characters, or call the sink with a quantity that nobody said; then answer."""
    if metadata.from_id in {"page", "pay"}:
        return HandlerResponse.respond(Order("done", 1, 1.0, urgent=False))
    return (
        HandlerResponse(replace(order, count=order.count + 1), "pay")
        if order.urgent
        else HandlerResponse(order, "page")
    )


async def spread(
    order: Order | Items, metadata: HandlerMetadata
) -> list[HandlerResponse] | HandlerResponse | None:
    """Fan out to many, and answer when the last has come back."""
    hit()
    if metadata.from_id != "worker":
        waiting.append(FAN)
        return [HandlerResponse(order, "worker") for _ in range(FAN)]
    waiting[-1] -= 1
    return None if waiting[-1] else HandlerResponse.respond(order)


async def echo(order: Order | Items, _metadata: HandlerMetadata) -> HandlerResponse:
    """Answer with what came."""
    hit()
    return HandlerResponse.respond(order)


async def open_many(
    order: Order | Items, metadata: HandlerMetadata
) -> list[HandlerResponse] | HandlerResponse | None:
    """Call many and keep their answers, so that a thread of each stays idle."""
    if metadata.from_id == "worker" or not isinstance(order, Order):
        return None
    return [HandlerResponse(order, "worker") for _ in range(order.count)]


async def stay(_order: Order | Items, _metadata: HandlerMetadata) -> None:
    """Never come to an end."""
    await asyncio.Event().wait()


waiting: list[int] = []


def _step(number: int) -> Callable[[Order | Items, HandlerMetadata], Awaitable[HandlerResponse | None]]:
    async def step(order: Order | Items, _metadata: HandlerMetadata) -> HandlerResponse | None:
        """Hand the message on; the last of the chain keeps it."""
        hit()
        return HandlerResponse(next_message(order), f"step{number + 1}") if number + 1 < CHAIN else None

    return step


step0, step1, step2, step3, step4, step5, step6, step7, step8, step9 = (
    _step(number) for number in range(CHAIN)
)
