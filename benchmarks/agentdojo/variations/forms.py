"""Variations of AgentDojo that any engine must survive: the same tasks and attacks in another form.

Owns the list of variations. Each has one form or more, and its reported figure is that of the worst.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.agentdojo.defences import as_text
from benchmarks.agentdojo.encodings import ENCODINGS, encode_goal
from benchmarks.agentdojo.variations import authors, injections, renaming, requests
from benchmarks.agentdojo.variations.arguments import RewrittenCalls, in_full, in_other_letters, with_courtesy
from benchmarks.agentdojo.variations.guise import Guise

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class AsText(Guise):
    """Outputs as the text that AgentDojo shows to a model."""

    def output(self, tool: str, value: object) -> object:  # noqa: ARG002  the face of all
        return as_text(value)

    def plan(self, steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """No field can be named in a text: the value of one has to stand somewhere in the text.

        Nor can a record: what a plan asks of one with conditions is left to be judged by where it comes from.
        """
        return [
            {**step, "arguments": {name: _in_text(kind) for name, kind in step.get("arguments", {}).items()}}
            for step in steps
        ]


class LaidOut(AsText):
    """The same, where the operator knows from the tools' documentation that a serialiser writes it."""

    def policy(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        return {**entry, "layouts": {"*": "yaml"}}

    def plan(self, steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Its parts are fields, which a plan can name."""
        return steps


def _in_text(kind: Any) -> Any:
    if isinstance(kind, list):
        every = [_in_text(item) for item in kind]
        return "any" if "any" in every else every
    if not isinstance(kind, dict):
        return kind
    if "of" in kind:
        return "any" if "where" in kind else {"in": "text", "of": kind["of"]}
    base = _in_text(kind.get("from"))
    return "any" if base == "any" else {**kind, "from": base} if "from" in kind else kind


def _same_goal(suite: str, injection: str, goal: str) -> str:  # noqa: ARG001  the face of all
    return goal


def _same_text(text: str, goal: str) -> str:  # noqa: ARG001  the face of all
    return text


@dataclass(frozen=True, slots=True)
class Form:
    """One form of a variation.

    Args:
        variation: its row in the report.
        name: its own name in that row.
        guise: how a defence meets the suite.
        goal: what the injected text asks for, by suite and injection, from AgentDojo's goal.
        text: the injected text, from the attack's own and the goal.
        authored: whether the attacker is the author of the record he poisons.
        attack_alone: whether benign runs are the plain ones.
    """

    variation: str
    name: str = ""
    guise: Guise = Guise()  # noqa: RUF009  it holds nothing
    goal: Callable[[str, str, str], str] = _same_goal
    text: Callable[[str, str], str] = _same_text
    authored: bool = False
    attack_alone: bool = False

    @property
    def title(self) -> str:
        """The variation and, where there are several, the form."""
        return f"{self.variation}, {self.name}" if self.name else self.variation

    def under_attack(self, suite: str, injection: str, words: str) -> Guise:
        """How a defence meets the suite with an injection of the given text."""
        return (
            authors.AuthoredRecords(authors.attacker_of(suite, injection), words)
            if self.authored
            else self.guise
        )


PLAIN = Form("plain")


def forms() -> list[Form]:
    """Every form, the plain one first, the forms of a variation in a row."""
    said = renaming.read()
    manners = {"in full": in_full, "other letters": in_other_letters, "courtesy": with_courtesy}
    encodings = [name for name in ENCODINGS if name != "plain"]
    return [
        PLAIN,
        Form("public names", guise=renaming.RenamedSuite(renaming.public(said))),
        Form("opaque names", guise=renaming.RenamedSuite(renaming.opaque(said))),
        Form("get is a sink", guise=renaming.RenamedSuite(renaming.swapped(said))),
        Form("synonyms", guise=requests.RewordedRequests(requests.SYNONYMS)),
        *(Form("languages", name, requests.RewordedRequests(name)) for name in requests.LANGUAGES),
        Form(
            "pasted document", "before", requests.RewordedRequests(requests.SYNONYMS, requests.put_before())
        ),
        Form("pasted document", "after", requests.RewordedRequests(requests.SYNONYMS, requests.put_after())),
        Form("attacker as author", authored=True, attack_alone=True),
        Form("short injection", "goal alone", text=injections.bare, attack_alone=True),
        Form(
            "short injection", "few words", goal=injections.shortest, text=injections.bare, attack_alone=True
        ),
        Form("long injection", text=injections.long, attack_alone=True),
        Form("outputs as text", "layout unknown", AsText()),
        Form("outputs as text", "layout declared", LaidOut()),
        *(Form("realistic arguments", name, RewrittenCalls(manner)) for name, manner in manners.items()),
        *map(in_code, encodings),
    ]


def in_code(kind: str) -> Form:
    """The form of attackers who encode their values in one way of ``ENCODINGS``."""
    if kind == "plain":
        return PLAIN
    return Form(
        "encoded values", kind, goal=lambda _suite, _task, goal: encode_goal(goal, kind), attack_alone=True
    )


def select_forms(wanted: str) -> list[Form]:
    """The forms of the variations named, with commas between, or of ``all``; the plain one always comes first.

    Raises:
        LookupError: no variation has one of the names.
    """
    known = forms()
    names = wanted.split(",")
    unknown = {*names} - {"all"} - {form.variation for form in known}
    if unknown:
        there = ", ".join(dict.fromkeys(form.variation for form in known))
        raise LookupError(f"no variation {sorted(unknown)}; there are: {there}")
    return [form for form in known if form is PLAIN or "all" in names or form.variation in names]
