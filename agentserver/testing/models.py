"""Language models that answer from scripts of a test.

Owns the form of such a script, and the models of an organism without a way to a provider.
"""

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
    """The answers of a model in a test, in order."""

    turns: tuple[Any, ...]


def scripted(*turns: Any) -> Turns:
    """A model that answers these turns, one for each call.

    Args:
        turns: each a text, a mapping as in the file of a scripted backend (``text``, ``calls``, ``finish``, ``fault``),
            a ``Completion``, an exception to raise, or a function that takes the ``Prompt`` and gives one of these.
    """
    return Turns(turns)


class ScriptedModel:
    """A model in a test.

    Args:
        name: by which handlers ask for it.
        script: what it answers; see ``scripted``. A function answers every call.
    """

    def __init__(self, name: str, script: ModelScript | Turns) -> None:
        self._name = name
        self._turns = script.turns if isinstance(script, Turns) else script
        self.prompts: list[Prompt] = []
        self.faults: list[AssertionError] = []

    async def __call__(self, prompt: Prompt) -> Completion:
        """Answer a prompt. An AssertionError is kept too: the server must not swallow a test's failure."""
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


class Unscripted:
    """A backend that a test must not ask."""

    def __init__(self, model: str, backend: str, faults: list[AssertionError]) -> None:
        self._model, self._backend, self._faults = model, backend, faults

    def __call__(self, prompt: Prompt) -> Completion:
        """Fail, with the argument that is missing."""
        del prompt
        fault = AssertionError(
            f'the model "{self._model}" would ask the backend "{self._backend}" of a provider: '
            f'give organism(..., models={{"{self._model}": scripted("...")}})'
        )
        self._faults.append(fault)
        raise fault


def replace_providers(
    models: LanguageModels | None, given: Mapping[str, ScriptedModel], faults: list[AssertionError]
) -> LanguageModels | None:
    """Replace each way to a provider by a script.

    Args:
        models: as the organism declares them; None for an organism without any, which gets those that are given.
        given: by the name of a model, what answers in its place.
        faults: gets the failure of each call that would have asked a provider.

    Raises ValueError for a name that the organism does not declare.
    """
    if models is None and not given:
        return None
    declared = (
        LanguageModels({}, {name: ModelChoice(name, ()) for name in given}) if models is None else models
    )
    for name in given.keys() - declared.models.keys():
        near = difflib.get_close_matches(name, declared.models, 1)
        raise ValueError(f"no model {name!r}{f'; did you mean {near[0]!r}?' if near else ''}")
    backends: dict[str, Backend] = {}
    choices: dict[str, ModelChoice] = {}
    for name, choice in declared.models.items():
        places = [declared.backends[one] for one in choice.backends]
        if name in given:
            first = places[0] if places else Backend(name, "scripted", name)
            own = [replace(first, name=f"{name}: script", provider="scripted", script=given[name])]
        else:
            own = [_harmless(name, place, faults) for place in places]
        backends.update((one.name, one) for one in own)
        retries = 0 if name in given else choice.retries  # a turn is for one call
        choices[name] = replace(choice, backends=tuple(one.name for one in own), retries=retries)
    return replace(declared, backends=MappingProxyType(backends), models=MappingProxyType(choices))


def _harmless(model: str, place: Backend, faults: list[AssertionError]) -> Backend:
    """A backend, or the stand-in of one that asks a provider."""
    if place.provider == "scripted":
        return place
    script = Unscripted(model, place.name, faults)
    return replace(place, name=f"{model}: {place.name}", provider="scripted", key="", script=script)
