"""One entry of the table of remedies."""

from __future__ import annotations

from typing import NamedTuple


class Remedy(NamedTuple):
    """The help for one refusal or finding.

    Args:
        family: a key of ``FAMILIES``.
        name: the code, as the server has it.
        means: what happened, in one sentence.
        look: where to look.
        change: the change that helps.
        said: another wording of the message, or empty.
    """

    family: str
    name: str
    means: str
    look: str
    change: str
    said: str = ""

    def __str__(self) -> str:
        return f"{self.family}:{self.name}"
