"""A backend that answers from a script, for tests, examples and demonstrations.

Its answers depend on the prompt alone, so that a retry after a crash gets the same answer.

A script is a list of turns. The turn after as many answers as the prompt has is the answer:

    - calls: [{tool: search, arguments: {text: agents}}]
    - text: "done"

A turn may have ``when:``, a text that the last message must contain; the turns of one number are then tried in order.
``fault: rate`` fails that way, ``finish: length`` cuts the text. Instead of a list, a function of the project
takes a Prompt and returns a Completion.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agentserver.completion import Completion, CompletionError, CompletionFault, Finish, ToolCall, Usage
from agentserver.llm.prompts import estimate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentserver.completion import Backend, PieceSink, Prompt


_WORDS = re.compile(r"\s*\S+|\s+")


class ScriptedBackend:
    """A backend that answers from a script."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def ask(self, prompt: Prompt, pieces: PieceSink | None = None) -> Completion:
        """Return the script's answer; with ``stream``, ``pieces`` receives its calls word by word.

        Raises CompletionError where the script says so, or has no turn.
        """
        answer = await self._answer(prompt)
        if self._backend.stream and pieces is not None:
            for index, call in enumerate(answer.calls):
                pieces.add_call(index, call.name, "")
                for word in _WORDS.findall(call.arguments):
                    pieces.add_call(index, "", word)
                    await asyncio.sleep(0)
        return answer

    async def _answer(self, prompt: Prompt) -> Completion:
        script = self._backend.script
        if not callable(script):
            return self._add_usage(prompt, self._turn(prompt, script))
        answer = script(prompt)
        if inspect.isawaitable(answer):
            answer = await answer
        if not isinstance(answer, Completion):
            reason = f"the script gave {type(answer).__name__}, not a Completion"
            raise CompletionError(CompletionFault.ANSWER, self._backend.name, reason)
        return self._add_usage(prompt, answer)

    async def close(self) -> None:
        """Do nothing: there is no connection."""

    def _turn(self, prompt: Prompt, script: list[Any]) -> Completion:
        number = sum(message.role == "assistant" for message in prompt.messages)
        last = prompt.messages[-1].content
        turns = script[number] if number < len(script) else None
        for turn in turns if isinstance(turns, list) else [turns]:
            if turn is not None and turn.get("when", "") in last:
                return read_turn(turn, number, self._backend.name)
        raise CompletionError(
            CompletionFault.ANSWER, self._backend.name, f"the script has no turn {number + 1}"
        )

    def _add_usage(self, prompt: Prompt, answer: Completion) -> Completion:
        """Add the finish and a usage: the estimate of the prompt, and a token for every three bytes of the answer."""
        written = len(answer.content) + sum(len(call.arguments) for call in answer.calls)
        usage = Usage(estimate(prompt), written // 3 + 1, 1, 0.0)
        calling = bool(answer.calls) and answer.finish is Finish.STOP
        return replace(
            answer,
            finish=Finish.TOOL_CALLS if calling else answer.finish,
            usage=usage if answer.usage == Usage() else answer.usage,
            model=answer.model or self._backend.model,
        )


def read_turn(turn: Mapping[str, Any], number: int, model: str) -> Completion:
    """Read the answer of a turn of a script; ``number`` counts from 0. Raises CompletionError where it says so."""
    if "fault" in turn:
        raise CompletionError(CompletionFault(turn["fault"]), model, "as the script says")
    calls = [
        ToolCall(f"call-{number + 1}-{place + 1}", call["tool"], json.dumps(call.get("arguments", {})))
        for place, call in enumerate(turn.get("calls", ()))
    ]
    finish = Finish(turn.get("finish") or Finish.STOP)
    return Completion(turn.get("text", ""), tuple(calls), finish=finish)
