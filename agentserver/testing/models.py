"""Language models that answer from scripts of a test, and an organism's models without access to providers."""

from __future__ import annotations

import difflib
import inspect
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from agentserver.completion import Backend, Completion, LanguageModels, ModelChoice
from agentserver.llm.scripted import read_turn

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from agentserver.completion import Prompt

    ModelScript: TypeAlias = Callable[[Prompt], Completion | Awaitable[Completion]] | Sequence[Any]


@dataclass(frozen=True, slots=True)
class Turns:
    """Answers of a model in a test, in order."""

    turns: tuple[Any, ...]


def script_model(*turns: Any) -> Turns:
    """Make a model that answers with these turns, one for each call.

    Args:
        turns: each a text, a mapping as in the file of a scripted backend (``text``, ``calls``, ``finish``, ``fault``),
            a ``Completion``, an exception to raise, or a function from ``Prompt`` to one of these.
    """
    return Turns(turns)


class ScriptedModel:
    """Model in a test.

    Args:
        name: used by handlers.
        script: its answers; see ``script_model``. A function answers every call.
    """

    def __init__(self, name: str, script: ModelScript | Turns) -> None:
        self._name = name
        self._turns = script.turns if isinstance(script, Turns) else script
        self.prompts: list[Prompt] = []
        self.faults: list[AssertionError] = []

    async def __call__(self, prompt: Prompt) -> Completion:
        """Answer a prompt. An AssertionError is stored as well.

        The server must not swallow a test's failure.
        """
        self.prompts.append(prompt)
        try:
            return await self._answer(prompt)
        except AssertionError as fault:
            self.faults.append(fault)
            raise

    async def _answer(self, prompt: Prompt) -> Completion:
        turn: Any = self._turns
        if not callable(turn):
            if len(self.prompts) > len(turn):
                raise AssertionError(
                    f"the model {self._name} was asked {len(self.prompts)} times; its script has {len(turn)} turns"
                )
            turn = turn[len(self.prompts) - 1]
        if callable(turn):
            turn = turn(prompt)
            if inspect.isawaitable(turn):
                turn = await turn
        if isinstance(turn, BaseException):
            raise turn
        if isinstance(turn, str):
            return Completion(turn)
        return turn if isinstance(turn, Completion) else read_turn(turn, len(self.prompts) - 1, self._name)


class UnscriptedModel:
    """Backend that a test must not call."""

    def __init__(self, model: str, backend: str, faults: list[AssertionError]) -> None:
        self._model, self._backend, self._faults = model, backend, faults

    def __call__(self, prompt: Prompt) -> Completion:
        """Fail and name the missing argument."""
        del prompt
        fault = AssertionError(
            f'the model "{self._model}" would ask the backend "{self._backend}" of a provider: '
            f'give organism(..., models={{"{self._model}": script_model("...")}})'
        )
        self._faults.append(fault)
        raise fault


def replace_providers(
    models: LanguageModels | None, scripts: Mapping[str, ScriptedModel], faults: list[AssertionError]
) -> LanguageModels | None:
    """Replace each backend of a provider by a script.

    Args:
        models: as the organism declares them; None for an organism without any, which gets the given ones.
        scripts: scripts by the name of the model.
        faults: receives the failure of each call that would have asked a provider.

    Raises ValueError for a name that the organism does not declare.
    """
    if models is None and not scripts:
        return None
    declared = (
        LanguageModels({}, {name: ModelChoice(name, ()) for name in scripts}) if models is None else models
    )
    for name in scripts.keys() - declared.models.keys():
        near = difflib.get_close_matches(name, declared.models, 1)
        raise ValueError(f"no model {name!r}{f'; did you mean {near[0]!r}?' if near else ''}")
    backends: dict[str, Backend] = {}
    choices: dict[str, ModelChoice] = {}
    for name, choice in declared.models.items():
        places = [declared.backends[one] for one in choice.backends]
        if name in scripts:
            first = places[0] if places else Backend(name, "scripted", name)
            own = [replace(first, name=f"{name}: script", provider="scripted", script=scripts[name])]
        else:
            own = [_without_provider(name, place, faults) for place in places]
        backends.update((one.name, one) for one in own)
        retries = 0 if name in scripts else choice.retries  # a turn is for one call
        choices[name] = replace(choice, backends=tuple(one.name for one in own), retries=retries)
    return replace(declared, backends=MappingProxyType(backends), models=MappingProxyType(choices))


def _without_provider(model: str, place: Backend, faults: list[AssertionError]) -> Backend:
    """Return a scripted backend, or the replacement of a provider's."""
    if place.provider == "scripted":
        return place
    script = UnscriptedModel(model, place.name, faults)
    return replace(place, name=f"{model}: {place.name}", provider="scripted", key="", script=script)
