"""The form in which a defence meets a suite, while AgentDojo runs and checks the real one.

Owns the seam: request, tool, arguments and output on their way to the defence, policy and plan that name them. Knows
neither AgentDojo nor a defence.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

from agentserver.provenance.policy.file import read_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping


class Guise:
    """The unchanged suite. Subclasses override the parts that they change."""

    def request(self, suite: str, task: str, words: str) -> str:  # noqa: ARG002  the face of all
        """The user's words for one task of a suite, both by AgentDojo's names."""
        return words

    def tool(self, name: str) -> str:
        """The name of a tool."""
        return name

    def arguments(self, tool: str, given: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG002  the face of all
        """The arguments of a call; ``tool`` is AgentDojo's name."""
        return dict(given)

    def output(self, tool: str, value: Any) -> Any:  # noqa: ARG002  the face of all
        """The output of a call, or the text of its error; ``tool`` is AgentDojo's name."""
        return value

    def policy(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        """A policy file's values, about the tools under the names of this guise."""
        return dict(entry)

    def plan(self, steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The steps of a plan file, about the tools under the names of this guise."""
        return steps


def write_policy(guise: Guise, text: str, name: str) -> str:
    """The text of a policy file, about the tools under the names of a guise. The order of rules is part of a policy."""
    return json.dumps(guise.policy(_values(text, name)), ensure_ascii=False)


@cache
def _values(text: str, name: str) -> Any:
    return read_yaml(text, name).values
