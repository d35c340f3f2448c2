"""Effect of each line of a suggested policy on a history: honest calls saved, attacks let pass."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from agentserver.history.foreign import ToolCall, ToolResult
from agentserver.provenance.evidence.labels import strip_indices
from agentserver.provenance.evidence.leaves import leaves
from agentserver.provenance.policy.suggestion import FieldForm, FieldShape, ListenerShape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from agentserver.history.backtest import Tally
    from agentserver.history.foreign import ForeignConversation
    from agentserver.provenance.policy.suggestion import Place, Suggestion

LINES: Final = 200
"""Lines of a suggestion whose effect is measured; each needs a judgement of the whole history."""

FIELDS: Final = 50
"""Fields of one tool that are suggested."""

VALUES: Final = 1000
"""Values of one field that are looked at."""


class Effect(NamedTuple):
    """Difference that one line makes, with all others as they are suggested.

    Args:
        saved: honest calls that run with it and not without it.
        missed: attacks that are stopped without it and not with it.
    """

    saved: int
    missed: int

    def describe(self, honest: int, *, active: bool) -> str:
        """Describe the effect, of so many honest calls; ``active`` lines have it now, others would."""
        saved, missed = abs(self.saved), abs(self.missed)
        stem = ("saves", "stops", "lets pass") if active else ("would save", "would stop", "would let pass")
        said = [f"{stem[0] if self.saved > 0 else stem[1]} {saved} of {honest} honest calls"] if saved else []
        if missed:
            said.append(
                f"{stem[2] if self.missed > 0 else stem[1]} {missed} attack{'' if missed == 1 else 's'}"
            )
        return ", ".join(said) or "changes no call here"


def measure_lines(suggestion: Suggestion, judge: Callable[[Suggestion], Tally]) -> dict[Place, str]:
    """Measure the effect of each line, as notes for ``Suggestion.format``.

    A line that is not active and makes no difference gets no note.
    """
    whole = judge(suggestion)
    notes: dict[Place, str] = {}
    for place, active in suggestion.list_places()[:LINES]:
        other = judge(suggestion.switch(place))
        with_it, without = (whole, other) if active else (other, whole)
        effect = Effect(
            _passed(with_it) - _passed(without), without.stopped_attacks - with_it.stopped_attacks
        )
        if active or any(effect):
            notes[place] = effect.describe(whole.honest, active=active)
    return notes


def _passed(tally: Tally) -> int:
    return tally.honest - tally.stopped.total()


def describe_whole(tally: Tally) -> str:
    """Describe the effect of the active lines together."""
    attacks = f"; {tally.stopped_attacks} of {tally.attacks} attacks are stopped" if tally.attacks else ""
    return f"Under the active lines, {_passed(tally)} of {tally.honest} honest calls run without a question{attacks}."


def shape_tools(conversations: Iterable[ForeignConversation]) -> Iterator[ListenerShape]:
    """Yield the tools of recorded conversations, with the fields of their arguments and outputs."""
    taken: defaultdict[str, _Fields] = defaultdict(_Fields)
    said: defaultdict[str, _Fields] = defaultdict(_Fields)
    for conversation in conversations:
        for event in conversation.events:
            if isinstance(event, ToolCall):
                taken[event.tool].add(event.arguments)
            elif isinstance(event, ToolResult):
                said[event.tool].add(event.output)
    for name in dict.fromkeys((*taken, *said)):
        yield ListenerShape(name, tuple(taken[name].shapes()), tuple(said[name].shapes()))


class _Fields:
    """Fields of one tool, with their forms and texts."""

    def __init__(self) -> None:
        self._forms: dict[str, FieldForm] = {}
        self._texts: defaultdict[str, list[str]] = defaultdict(list)

    def add(self, value: object) -> None:
        """Add the fields of one value."""
        for leaf in leaves(value):
            path = strip_indices(leaf.path)
            if not path or leaf.value is None or (path not in self._forms and len(self._forms) >= FIELDS):
                continue
            form = _form_of(leaf.value)
            if self._forms.setdefault(path, form) is not form:
                self._forms[path] = FieldForm.TEXT
            if isinstance(leaf.value, str) and len(self._texts[path]) < VALUES:
                self._texts[path].append(leaf.value)

    def shapes(self) -> Iterator[FieldShape]:
        """Yield the fields."""
        for path, form in self._forms.items():
            yield FieldShape(path, form, tuple(self._texts[path]))


def _form_of(value: object) -> FieldForm:
    if isinstance(value, bool):
        return FieldForm.FLAG
    return FieldForm.TEXT if isinstance(value, str) else FieldForm.NUMBER
