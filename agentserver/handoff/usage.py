"""The requests that a listener may make of its peers, as text for a model's prompt.

Owns the wording of intents and its bounds. What it shows is the author's and was proved: names, choices and patterns
without white space, each intent in one line. Templates are left out: they are for the target
alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from collections.abc import Set as AbstractSet

    from agentserver.handoff.intents import Intent, Vocabulary
    from agentserver.handoff.parameters import Parameter
    from agentserver.hygiene.simple_types import Lexical

INTRODUCTION: Final = """\
## Handing over work
Send a Handoff with one of these intents, and each value as a param. Free text is shown to the listener as data."""
MOST: Final = 20_000
"""Characters of the text; intents beyond it are counted."""


def offered(vocabulary: Vocabulary, peers: AbstractSet[str]) -> str:
    """The intents by which a listener with these peers may hand work over; empty when there are none."""
    lines = list(_lines((checked.intent for checked in vocabulary.intents.values()), peers))
    if not lines:
        return ""
    kept: list[str] = [INTRODUCTION]
    room = MOST - len(INTRODUCTION)
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    left_out = len(lines) + 1 - len(kept)
    return "\n".join([*kept, *([f"{left_out} more intents are not shown."] if left_out else [])])


def _lines(intents: Iterable[Intent], peers: AbstractSet[str]) -> Iterator[str]:
    for intent in intents:
        targets = [target for target in intent.targets if target in peers]
        if targets:
            fields = [_field(each) for each in intent.parameters]
            fields += [f"note: optional, free text of at most {intent.note_most} characters"] * bool(
                intent.note
            )
            yield f"- {intent.name} (to {' or '.join(targets)}): {'; '.join(fields) or 'no values'}"


def _field(parameter: Parameter) -> str:
    optional = "" if parameter.required else "optional, "
    return f"{parameter.name}: {optional}{_shape(parameter.lexical)}"


def _shape(lexical: Lexical) -> str:
    if lexical.choices:
        return f"one of {', '.join(lexical.choices)}"
    length = "" if lexical.most is None else f", at most {lexical.most} characters"
    return f"text that matches {' and '.join(lexical.patterns)}{length}"
