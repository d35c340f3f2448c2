"""Completions: asks the backends of a model, retries, falls back, accounts for the cost and types the answer.

A payload class is offered as a tool by its JSON Schema; the JSON text of a model is validated against its XSD.

Pacing takes the time as a parameter, so that tests need not wait.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections import deque
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, Self

from agentserver.completion import (
    Attempt,
    Completion,
    CompletionError,
    CompletionFault,
    Finish,
    Prompt,
    PromptMessage,
    Request,
    Tool,
    Usage,
)
from agentserver.extras import require
from agentserver.llm.prompts import check_tools, estimate, parse_messages
from agentserver.llm.scripted import ScriptedBackend
from agentserver.payload.codec import Codecs
from agentserver.payload.json.elements import convert_element
from agentserver.payload.json.schema import json_schema
from agentserver.payload.json.values import JsonRefusal, read_json
from agentserver.payload.names import local
from agentserver.spending import Amount, BudgetExceededError, usd

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from agentserver.completion import Backend, LanguageModels, ModelChoice, PieceSink
    from agentserver.payload.codec import Codec

MINUTE = 60.0


class Pace:
    """The limits of one backend.

    Args:
        concurrency: requests at once.
        tokens: in any minute; None for no limit.
        now: seconds, by a clock that cannot be set.
    """

    def __init__(self, concurrency: int, tokens: int | None, now: Callable[[], float]) -> None:
        self._slots = asyncio.Semaphore(concurrency)
        self._concurrency = concurrency
        self._tokens = tokens
        self._now = now
        self._spent: deque[tuple[float, list[int]]] = deque()
        self._sum = 0
        self._resting = 0.0
        self.running = 0

    @property
    def load(self) -> float:
        """The share of its slots that is taken, waiting requests included."""
        return self.running / self._concurrency

    def pause(self, seconds: float) -> None:
        """Leave it alone for so long."""
        self._resting = max(self._resting, self._now() + seconds)

    def seconds_paused(self) -> float:
        """Compute the seconds for which it wants to be left alone."""
        return max(0.0, self._resting - self._now())

    async def enter(self, tokens: int, until: float) -> list[int] | None:
        """Wait for a slot and for the tokens of a request; None if there are not enough before ``until``.

        Returns the token count, which ``leave`` corrects.
        """
        self.running += 1
        slot, taken = False, None
        try:
            async with asyncio.timeout(max(0.0, until - self._now())):
                slot = await self._slots.acquire()
            taken = await self._take(tokens, until)
        except TimeoutError:
            return None
        finally:
            if taken is None:
                self._free(slot)
        return taken

    async def _take(self, tokens: int, until: float) -> list[int] | None:
        """Book tokens as soon as the last minute has room for them. A request beyond the limit waits for all of it."""
        while self._tokens is not None:
            pause = self._wait(min(tokens, self._tokens))
            if pause <= 0:
                break
            if self._now() + pause >= until:
                return None
            await asyncio.sleep(pause)
        entry = [tokens]
        if self._tokens is not None:
            self._spent.append((self._now(), entry))
            self._sum += tokens
        return entry

    def _wait(self, tokens: int) -> float:
        """Compute the seconds until the last minute has room."""
        assert self._tokens is not None
        now = self._now()
        while self._spent and self._spent[0][0] <= now - MINUTE:
            self._sum -= self._spent.popleft()[1][0]
        excess = self._sum + tokens - self._tokens
        for at, entry in self._spent:
            if excess <= 0:
                break
            excess -= entry[0]
            if excess <= 0:
                return max(at + MINUTE - now, 0.001)
        return 0.0

    def leave(self, entry: list[int], tokens: int | None) -> None:
        """Release the slot of a finished request and correct its token count; ``None`` if the usage is unknown."""
        if tokens is not None:
            if self._tokens is not None and any(spent is entry for _, spent in self._spent):
                self._sum += tokens - entry[0]
            entry[0] = tokens
        self._free(slot=True)

    def _free(self, slot: bool) -> None:  # noqa: FBT001 - private
        self.running -= 1
        if slot:
            self._slots.release()


DESCRIPTION = 1000
"""Characters of a description."""


def describe_tool(codec: Codec, name: str = "", description: str = "") -> Tool:
    """Describe a payload class as a tool that takes its fields.

    Args:
        codec: of the class.
        name: of the tool; that of the payload when empty.
        description: for the model; the docstring of the class when empty.

    Raises ValueError for a class that is bound to a hand-written schema: it has no JSON form.
    """
    schema = json_schema(codec)
    if isinstance(schema, JsonRefusal):
        raise ValueError(str(schema))  # noqa: TRY004 - the class has no JSON form
    schema.pop("$schema", None)
    text = description or written_docstring(codec.payload)
    return Tool(name or local(codec.name), text[:DESCRIPTION], schema)


def written_docstring(kind: type) -> str:
    """Return the docstring that an author wrote; dataclasses generate one from their fields otherwise."""
    text = inspect.cleandoc(kind.__doc__ or "")
    return "" if text.startswith(f"{kind.__name__}(") else text


def decode_value(codec: Codec, text: str) -> Any | JsonRefusal:
    """Decode a JSON text as a payload; a refusal lists corrections in terms of the class."""
    found = read_json(text)
    element = found if isinstance(found, JsonRefusal) else convert_element(codec, found)
    return element if isinstance(element, JsonRefusal) else codec.decode(element)


def decode_answer(
    completion: Completion, prompt: Prompt, codec: Codec
) -> Completion | tuple[PromptMessage, ...]:
    """Decode the typed answer of a completion, or list the corrections for the model.

    Tool calls take precedence over an answer that comes with them: it was written without their results.
    """
    assert prompt.answer is not None
    name = prompt.answer.name
    others = tuple(call for call in completion.calls if call.name != name)
    if others:
        return replace(completion, calls=others)
    mine = completion.calls[0] if completion.calls else None
    value = decode_value(codec, mine.arguments if mine else completion.content)
    if not isinstance(value, JsonRefusal):
        return replace(completion, calls=(), output=value, finish=Finish.STOP)
    if mine is None:
        correction = f"Answer with a call of the tool {name}.\n{value}"
        return (PromptMessage("assistant", completion.content), PromptMessage("user", correction))
    correction = f"The arguments are not valid. Correct them.\n{value}"
    results = (PromptMessage("tool", correction, id=call.id, name=call.name) for call in completion.calls)
    return (PromptMessage("assistant", completion.content, completion.calls), *results)


BACKOFF = 0.5
"""Seconds before a backend that failed is asked again; each further pause is twice as long."""

LONGEST = 8.0
"""Seconds of the longest such pause."""

MOST = 10**9
"""Tokens, and US dollars, of one completion that are believed."""


class Provider(Protocol):
    """The way to one backend."""

    async def ask(self, prompt: Prompt, pieces: PieceSink | None = None) -> Completion:
        """Send a prompt once; ``pieces`` receives the answer as it comes. Raises CompletionError."""

    async def close(self) -> None:
        """Close its connections."""


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
            providers = await asyncio.to_thread(_build_providers, tuple(self.declared.backends.values()))
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
        """Complete a prompt. Raises CompletionError, LookupError for an unknown model, ValueError, TypeError."""
        choice = self.declared.models.get(model)
        if choice is None:
            known = ", ".join(sorted(self.declared.models))
            raise LookupError(f'the organism declares no model "{model}" under llm: models (known: {known})')
        tools = tuple(
            one if isinstance(one, Tool) else describe_tool(self._codec(one)) for one in request.tools
        )
        kind = request.output
        answer = kind if kind is None or isinstance(kind, Tool) else describe_tool(self._codec(kind))
        check_tools((*tools, *([answer] if answer else ())))
        prompt = Prompt(parse_messages(request.messages), tools, answer, choice.max_tokens, choice.settings)
        if isinstance(kind, type):
            return await self._complete_typed(choice, prompt, request, self._codec(kind))
        return await self._complete_once(choice, prompt, request)

    def _codec(self, kind: type) -> Codec:
        """Return the codec of a class, cached. Raises TypeError for a class that is not a payload."""
        if "__xml_name__" not in vars(kind):
            raise TypeError(f"{kind!r} is neither a Tool nor an @xmlify class")
        if kind not in self._codecs:
            self._codecs[kind] = Codecs([kind]).of(kind)
        return self._codecs[kind]

    async def _complete_typed(
        self, choice: ModelChoice, prompt: Prompt, request: Request, codec: Codec
    ) -> Completion:
        """Ask until the answer is of the class, as often as may be. Raises CompletionError."""
        usage = Usage(calls=0)
        for _ in range(request.repairs + 1):
            completion = await self._complete_once(choice, prompt, request)
            usage += completion.usage
            if not completion.finish.complete:
                return replace(completion, usage=usage)
            judged = decode_answer(completion, prompt, codec)
            if isinstance(judged, Completion):
                return replace(judged, usage=usage)
            if request.pieces is not None:
                request.pieces.restart("the answer is repaired")
            prompt = replace(prompt, messages=(*prompt.messages, *judged))
        reason = f"{request.repairs + 1} answers were no {codec.payload.__name__}"
        raise CompletionError(CompletionFault.ANSWER, choice.name, reason)

    async def _complete_once(self, choice: ModelChoice, prompt: Prompt, request: Request) -> Completion:
        """Ask the backends until one gives a whole answer or no further attempt makes sense."""
        places = self._order(choice, [self._places[name] for name in choice.backends])
        trying = AttemptLog(places, choice.retries, self.now)
        while (place := await self._pick_backend(trying, request.until)) is not None:
            try:
                done = await self._ask(choice, place, prompt, request, trying.attempts)
                return trying.record_answer(
                    place, done if request.partial else check_whole(choice.name, done)
                )
            except CompletionError as error:
                if request.pieces is not None:
                    request.pieces.restart(f"the model failed: {error.fault.value}")
                if error.fault is CompletionFault.BUDGET:
                    raise
                trying.record_failure(place, error)
                if not error.fault.retryable_elsewhere:
                    break
        raise trying.error(choice.name)

    async def _pick_backend(self, trying: AttemptLog, until: float) -> RunningBackend | None:
        """Pick a backend, waiting while all of them pause. None if all failed or the deadline comes first."""
        while trying.remaining:
            places = [place for place in trying.remaining if trying.wait(place) <= 0]
            if places:
                return min(places, key=trying.count_attempts)
            if not await self._await_pause(min(map(trying.wait, trying.remaining)), until):
                break
        return None

    async def _await_pause(self, seconds: float, until: float) -> bool:
        """Wait; False, at once, when that would take too long."""
        if self.now() + seconds >= until:
            return False
        await asyncio.sleep(seconds)
        return True

    def _order(self, choice: ModelChoice, places: Sequence[RunningBackend]) -> list[RunningBackend]:
        if choice.strategy == "least-loaded":
            return sorted(places, key=lambda place: place.pace.load)
        if choice.strategy == "round-robin":
            turn = self._turns.get(choice.name, 0)
            self._turns[choice.name] = (turn + 1) % len(places)
            return [*places[turn:], *places[:turn]]
        return list(places)

    async def _ask(
        self,
        choice: ModelChoice,
        place: RunningBackend,
        prompt: Prompt,
        request: Request,
        before: Sequence[Attempt],
    ) -> Completion:
        """Ask one backend once, when it has a turn, after these attempts. Raises CompletionError."""
        expected = estimate(prompt) + prompt.max_tokens
        entry = await place.pace.enter(expected, request.until)
        if entry is None:
            raise CompletionError(CompletionFault.RATE, choice.name)
        used: int | None = None
        try:
            done = await self._charge(choice, place, prompt, request, before)
            used = done.usage.tokens or None
        except CompletionError as error:
            used = 0 if error.free else None
            raise
        finally:
            place.pace.leave(entry, used)
        return done

    async def _charge(
        self,
        choice: ModelChoice,
        place: RunningBackend,
        prompt: Prompt,
        request: Request,
        before: Sequence[Attempt],
    ) -> Completion:
        """Ask a backend, its price reserved before and settled after. Raises CompletionError."""
        if request.purse is None:
            return await self._send(choice, place, prompt, request)
        maximum = dearest(prompt, place.backend)
        try:
            reserved = await request.purse.reserve(
                maximum, describe_work(choice.name, request, place.backend, before)
            )
        except BudgetExceededError as error:
            raise CompletionError(CompletionFault.BUDGET, choice.name, str(error)) from error
        try:
            done = await self._send(choice, place, prompt, request)
        except CompletionError as error:
            if error.free:
                await request.purse.settle(reserved, Amount())
            raise
        if done.usage.tokens:  # a provider that does not say is charged what was reserved
            money = maximum.money if done.usage.money is None else usd(done.usage.money)
            await request.purse.settle(reserved, Amount(done.usage.tokens, money))
        return done

    async def _send(
        self, choice: ModelChoice, place: RunningBackend, prompt: Prompt, request: Request
    ) -> Completion:
        """Ask a backend within its time. Raises CompletionError."""
        timeout = min(place.backend.timeout, request.until - self.now())
        try:
            async with asyncio.timeout(timeout):
                done = await place.provider.ask(prompt, request.pieces)
        except TimeoutError:
            done = None
        if done is None:
            raise CompletionError(CompletionFault.TIMEOUT, choice.name)
        return replace(done, usage=_price(done, place.backend))


class AttemptLog:
    """The backends that may still answer one completion, and the attempts so far.

    Args:
        places: the backends of the model, in the order in which they are asked.
        retries: further attempts at each one that failed for now.
        now: seconds, by a clock that cannot be set.
    """

    def __init__(self, places: Sequence[RunningBackend], retries: int, now: Callable[[], float]) -> None:
        self.remaining = list(places)
        self.attempts: list[Attempt] = []
        self._retries, self._now = retries, now
        self._due: dict[str, float] = {}
        self._spent = Usage(calls=0)
        self._last: CompletionError | None = None

    def count_attempts(self, place: RunningBackend) -> int:
        """Count the attempts at a backend."""
        return sum(one.backend == place.backend.name for one in self.attempts)

    def wait(self, place: RunningBackend) -> float:
        """Compute the seconds until a backend may be asked: its own wish, or the pause after its last failure."""
        return max(place.pace.seconds_paused(), self._due.get(place.backend.name, 0.0) - self._now())

    def record_failure(self, place: RunningBackend, error: CompletionError) -> None:
        """Record a failure. A backend is dropped after a failure that a retry cannot fix."""
        name = place.backend.name
        self._last = error
        self.attempts.append(Attempt(name, error.fault, error.status))
        if error.partial is not None:
            self._spent += error.partial.usage
        place.pace.pause(error.after or 0.0)
        tried = self.count_attempts(place)
        if not error.fault.passing or tried > self._retries:
            self.remaining.remove(place)
        self._due[name] = self._now() + min(BACKOFF * 2 ** (tried - 1), LONGEST)

    def record_answer(self, place: RunningBackend, done: Completion) -> Completion:
        """Add the earlier attempts and their cost to a backend's answer."""
        attempts = (*self.attempts, Attempt(place.backend.name))
        return replace(done, usage=self._spent + done.usage, attempts=attempts)

    def error(self, model: str) -> CompletionError:
        """Return the failure of the completion: the last one of a backend, with all attempts."""
        last = self._last
        if last is None:
            rest = min(map(self.wait, self.remaining))
            reason = f"asks to be left alone for {rest:.0f} s, longer than the invocation may take"
            return CompletionError(CompletionFault.RATE, model, reason, rest)
        reason = "; ".join(filter(None, (*map(str, self.attempts), last.reason)))
        return CompletionError(
            last.fault,
            model,
            reason,
            last.after,
            free=last.free,
            status=last.status,
            partial=last.partial,
            attempts=self.attempts,
        )


def check_whole(model: str, done: Completion) -> Completion:
    """Give an answer back if it is whole. Raises CompletionError."""
    if done.finish.complete:
        return done
    raise CompletionError(CompletionFault(done.finish.value), model, partial=done)


def describe_work(model: str, request: Request, backend: Backend, before: Sequence[Attempt]) -> str:
    """Describe one attempt for the trace: model, prompt, backend, and the outcome of the attempt before."""
    prompt = f" (prompt {request.prompt})" if request.prompt else ""
    after = f" after {before[-1]}" if before else ""
    return f"{model}{prompt} at {backend.name}{after}"


def check_extra(declared: LanguageModels) -> None:
    """Raise MissingExtraError where a backend needs an SDK that is not installed."""
    if any(backend.provider != "scripted" for backend in declared.backends.values()):
        require("a language model of a provider", "llm")


def dearest(prompt: Prompt, backend: Backend) -> Amount:
    """Compute the maximum cost of a prompt at a backend."""
    read_json, price = estimate(prompt), backend.ceiling or backend.price
    money = 0.0 if price is None else (read_json * price.input + prompt.max_tokens * price.output) / 1e6
    return Amount(read_json + prompt.max_tokens, usd(money))


def _price(done: Completion, backend: Backend) -> Usage:
    """Price a completion by the organism's prices, or else by the library's."""
    price, usage = backend.price, _plausible_usage(done.usage)
    if price is None:
        return usage
    money = (usage.input_tokens * price.input + usage.output_tokens * price.output) / 1e6
    return replace(usage, money=money)


def _plausible_usage(usage: Usage) -> Usage:
    """Return the usage reported by a provider if it is plausible, else no tokens and an unknown cost."""
    if min(usage.input_tokens, usage.output_tokens) < 0 or usage.tokens > MOST:
        return Usage(calls=usage.calls, money=None)
    possible = usage.money is None or 0 <= usage.money <= MOST
    return usage if possible else replace(usage, money=None)


def _build_providers(backends: Sequence[Backend]) -> Mapping[str, Provider]:
    """Build the clients of the backends. Takes seconds if an SDK must be imported."""
    providers: dict[str, Provider] = {
        one.name: ScriptedBackend(one) for one in backends if one.provider == "scripted"
    }
    remote = [one for one in backends if one.provider != "scripted"]
    if remote:
        from agentserver.llm.providers import RemoteBackend

        providers.update({one.name: RemoteBackend(one) for one in remote})
    return providers
