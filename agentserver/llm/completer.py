"""The completer of a server: which backend answers, when it is asked again, and when nobody is.

Owns strategies, repetition and the deadline. Refuses to know any provider's protocol: see providers.py and scripted.py.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol, Self

from agentserver.completion import Completion, CompletionError, CompletionFault, Prompt, Request, Tool, Usage
from agentserver.extras import require
from agentserver.llm.limits import Pace
from agentserver.llm.prompts import check_tools, estimate, messages_of
from agentserver.llm.scripted import Scripted
from agentserver.llm.typed import answered, tool_of
from agentserver.payload.codec import Codecs
from agentserver.spending import Amount, SpentError, usd

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from agentserver.completion import Backend, LanguageModels, ModelChoice
    from agentserver.payload.codec import Codec

BACKOFF = 0.5
"""Seconds before the second round over the backends; each further pause is twice as long."""

LONGEST = 8.0
"""Seconds of the longest such pause."""

MOST = 10**9
"""Tokens, and US dollars, of one completion that are believed."""


class Provider(Protocol):
    """The way to one backend."""

    async def ask(self, prompt: Prompt) -> Completion:
        """Send a prompt once. Raises CompletionError."""
        ...

    async def close(self) -> None:
        """Let go of its connections."""
        ...


@dataclass(eq=False, slots=True)
class RunningBackend:
    """A backend at work."""

    backend: Backend
    provider: Provider
    pace: Pace


@dataclass(slots=True)
class Models:
    """The models of an organism. An async context manager: entering makes the clients, leaving closes them.

    Args:
        declared: backends and models.
        now: seconds, by the clock of ``Request.until``.
    """

    declared: LanguageModels
    now: Callable[[], float] = time.monotonic
    _places: Mapping[str, RunningBackend] = field(default_factory=dict)
    _turns: dict[str, int] = field(default_factory=dict)
    _codecs: dict[type, Codec] = field(default_factory=dict)
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def __aenter__(self) -> Self:
        """Make the clients. The SDKs are imported in a thread, and only where a backend needs one."""
        check_extra(self.declared)
        async with AsyncExitStack() as stack:
            providers = await asyncio.to_thread(_providers, tuple(self.declared.backends.values()))
            for provider in providers.values():
                stack.push_async_callback(provider.close)
            self._places = {
                name: RunningBackend(backend, providers[name], self._pace(backend))
                for name, backend in self.declared.backends.items()
            }
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    def _pace(self, backend: Backend) -> Pace:
        return Pace(backend.concurrency, backend.tokens_per_minute, self.now)

    async def complete(self, model: str, request: Request) -> Completion:
        """The answer of a model. Raises CompletionError, LookupError for an unknown model, ValueError, TypeError."""
        choice = self.declared.models.get(model)
        if choice is None:
            known = ", ".join(sorted(self.declared.models))
            raise LookupError(f'the organism declares no model "{model}" under llm: models (known: {known})')
        tools = tuple(one if isinstance(one, Tool) else tool_of(self._codec(one)) for one in request.tools)
        kind = request.output
        answer = kind if kind is None or isinstance(kind, Tool) else tool_of(self._codec(kind))
        check_tools((*tools, *([answer] if answer else ())))
        prompt = Prompt(messages_of(request.messages), tools, answer, choice.max_tokens)
        if isinstance(kind, type):
            return await self._typed(choice, prompt, request, self._codec(kind))
        return await self._answered(choice, prompt, request)

    def _codec(self, kind: type) -> Codec:
        """The codec of a class, made once. Raises TypeError for one that is no payload."""
        if "__xml_name__" not in vars(kind):
            raise TypeError(f"{kind!r} is neither a Tool nor an @xmlify class")
        if kind not in self._codecs:
            self._codecs[kind] = Codecs([kind]).of(kind)
        return self._codecs[kind]

    async def _typed(self, choice: ModelChoice, prompt: Prompt, request: Request, codec: Codec) -> Completion:
        """Ask until the answer is of the class, as often as may be. Raises CompletionError."""
        usage = Usage(calls=0)
        for _ in range(request.repairs + 1):
            said = await self._answered(choice, prompt, request)
            usage += said.usage
            judged = answered(said, prompt, codec)
            if isinstance(judged, Completion):
                return replace(judged, usage=usage)
            prompt = replace(prompt, messages=(*prompt.messages, *judged))
        why = f"{request.repairs + 1} answers were no {codec.payload.__name__}"
        raise CompletionError(CompletionFault.ANSWER, choice.name, why)

    async def _answered(self, choice: ModelChoice, prompt: Prompt, request: Request) -> Completion:
        """Ask the backends, round by round, until one answers or no further attempt makes sense."""
        said = await self._round(choice, prompt, request)
        for attempt in range(choice.retries):
            if isinstance(said, Completion) or not await self._pause(
                min(BACKOFF * 2**attempt, LONGEST), request.until
            ):
                break
            said = await self._round(choice, prompt, request)
        if isinstance(said, CompletionError):
            raise said
        return said

    async def _round(
        self, choice: ModelChoice, prompt: Prompt, request: Request
    ) -> Completion | CompletionError:
        """Ask each backend once; the last failure when none has answered. Raises one that no attempt can mend."""
        last = CompletionError(CompletionFault.UNAVAILABLE, choice.name)
        for place in await self._ready(choice, request.until):
            try:
                return await self._ask(choice, place, prompt, request)
            except CompletionError as error:
                if not error.fault.passing:
                    raise
                last = error
                place.pace.rest(error.after or 0.0)
        return last

    async def _pause(self, seconds: float, until: float) -> bool:
        """Wait; False, at once, when that would take too long."""
        if self.now() + seconds >= until:
            return False
        await asyncio.sleep(seconds)
        return True

    async def _ready(self, choice: ModelChoice, until: float) -> list[RunningBackend]:
        """The backends that may be asked now, in the order of the strategy; waits while all want to be left alone.

        Raises CompletionError when they want that for longer than there is time.
        """
        places = [self._places[name] for name in choice.backends]
        while True:
            rest = min(place.pace.resting() for place in places)
            if rest <= 0:
                return [place for place in self._order(choice, places) if not place.pace.resting()]
            if not await self._pause(rest, until):
                why = f"asks to be left alone for {rest:.0f} s, longer than the invocation may take"
                raise CompletionError(CompletionFault.RATE, choice.name, why, rest)

    def _order(self, choice: ModelChoice, places: Sequence[RunningBackend]) -> list[RunningBackend]:
        if choice.strategy == "least-loaded":
            return sorted(places, key=lambda place: place.pace.load)
        if choice.strategy == "round-robin":
            turn = self._turns.get(choice.name, 0)
            self._turns[choice.name] = (turn + 1) % len(places)
            return [*places[turn:], *places[:turn]]
        return list(places)

    async def _ask(
        self, choice: ModelChoice, place: RunningBackend, prompt: Prompt, request: Request
    ) -> Completion:
        """Ask one backend once, when it has a turn. Raises CompletionError."""
        expected = estimate(prompt) + prompt.max_tokens
        entry = await place.pace.enter(expected, request.until)
        if entry is None:
            raise CompletionError(
                CompletionFault.RATE, choice.name, f"{place.backend.name} has no turn in time"
            )
        used: int | None = None
        try:
            done = await self._charged(choice, place, prompt, request)
            used = done.usage.tokens or None
        except CompletionError as error:
            used = 0 if error.free else None
            raise
        finally:
            place.pace.leave(entry, used)
        return done

    async def _charged(
        self, choice: ModelChoice, place: RunningBackend, prompt: Prompt, request: Request
    ) -> Completion:
        """Ask a backend, its price reserved before and settled after. Raises CompletionError."""
        if request.purse is None:
            return await self._sent(choice, place, prompt, request)
        most, what = dearest(prompt, place.backend), choice.name
        if request.prompt:
            what = f"{choice.name} (prompt {request.prompt})"
        try:
            reserved = await request.purse.reserve(most, what)
        except SpentError as error:
            raise CompletionError(CompletionFault.BUDGET, choice.name, str(error)) from error
        try:
            done = await self._sent(choice, place, prompt, request)
        except CompletionError as error:
            if error.free:
                await request.purse.settle(reserved, Amount())
            raise
        if done.usage.tokens:  # a provider that does not say is charged what was reserved
            money = most.money if done.usage.money is None else usd(done.usage.money)
            await request.purse.settle(reserved, Amount(done.usage.tokens, money))
        return done

    async def _sent(
        self, choice: ModelChoice, place: RunningBackend, prompt: Prompt, request: Request
    ) -> Completion:
        """Ask a backend within its time. Raises CompletionError."""
        late = min(place.backend.timeout, request.until - self.now())
        try:
            async with asyncio.timeout(late):
                done = await place.provider.ask(prompt)
        except TimeoutError:
            done = None
        if done is None:
            why = f"{place.backend.name} took over {late:.3g} s"
            raise CompletionError(CompletionFault.TIMEOUT, choice.name, why)
        return replace(done, usage=_priced(done, place.backend))


def check_extra(declared: LanguageModels) -> None:
    """Raise MissingExtraError where a backend needs an SDK that is not installed."""
    if any(backend.provider != "scripted" for backend in declared.backends.values()):
        require("a language model of a provider", "llm")


def dearest(prompt: Prompt, backend: Backend) -> Amount:
    """The most that a prompt may cost at a backend."""
    read, price = estimate(prompt), backend.ceiling or backend.price
    money = 0.0 if price is None else (read * price.input + prompt.max_tokens * price.output) / 1e6
    return Amount(read + prompt.max_tokens, usd(money))


def _priced(done: Completion, backend: Backend) -> Usage:
    """The cost of a completion, by the prices that the organism names, or else by the library's."""
    price, usage = backend.price, _believed(done.usage)
    if price is None:
        return usage
    money = (usage.input_tokens * price.input + usage.output_tokens * price.output) / 1e6
    return replace(usage, money=money)


def _believed(usage: Usage) -> Usage:
    """The usage that a provider tells, where it can; nothing told where it cannot."""
    if min(usage.input_tokens, usage.output_tokens) < 0 or usage.tokens > MOST:
        return Usage(calls=usage.calls, money=None)
    possible = usage.money is None or 0 <= usage.money <= MOST
    return usage if possible else replace(usage, money=None)


def _providers(backends: Sequence[Backend]) -> Mapping[str, Provider]:
    """The ways to the backends. Takes seconds where it has to import an SDK."""
    made: dict[str, Provider] = {one.name: Scripted(one) for one in backends if one.provider == "scripted"}
    remote = [one for one in backends if one.provider != "scripted"]
    if remote:
        from agentserver.llm.providers import RemoteBackend

        made.update({one.name: RemoteBackend(one) for one in remote})
    return made
