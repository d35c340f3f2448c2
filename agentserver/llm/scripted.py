"""The backend that answers from a script: for tests, examples and demonstrations. It asks nobody.

Owns the form of scripts. Its answers follow from the prompt alone, so that one that is asked again after a crash says
the same again.

A script is a list of turns, of which the next one is the answer to a prompt in which the model has spoken so often:

    - calls: [{tool: search, arguments: {text: agents}}]
    - text: "done"

A turn may say ``when:`` with a text that the last message has to hold; then the turns of one number are tried in order.
``fault: rate`` fails in that way, ``finish: length`` ends the text there. Instead of a list, a function of the project
takes a Prompt and gives a Completion.
"""

from __future__ import annotations

import inspect
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agentserver.completion import Completion, CompletionError, CompletionFault, Finish, ToolCall, Usage
from agentserver.llm.prompts import estimate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentserver.completion import Backend, Prompt


class Scripted:
    """A backend that answers from a script."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def ask(self, prompt: Prompt) -> Completion:
        """The script's answer. Raises CompletionError where the script says so, or says nothing."""
        script = self._backend.script
        if not callable(script):
            return self._counted(prompt, self._turn(prompt, script))
        answer = script(prompt)
        if inspect.isawaitable(answer):
            answer = await answer
        if not isinstance(answer, Completion):
            why = f"the script gave {type(answer).__name__}, not a Completion"
            raise CompletionError(CompletionFault.ANSWER, self._backend.name, why)
        return self._counted(prompt, answer)

    async def close(self) -> None:
        """Nothing is open."""

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

    def _counted(self, prompt: Prompt, answer: Completion) -> Completion:
        """With its finish and a usage: the estimate of the prompt, and a token for each three bytes of the answer."""
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
