"""Worth of the outputs of listeners, kept for the moment: a message is assessed when it is judged and when it arrives.

Owns the values, and how many of them are kept. Refuses to assess: the ledger does.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from agentserver.provenance.evidence.leaves import text_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentserver.provenance.evidence.labels import Leaf, Observation, Standing
    from agentserver.provenance.policy.declarations import Policy
    from agentserver.provenance.request.trusted_words import TrustedWords

KEPT: Final = 64
"""Outputs of which it is kept what they are worth."""
LONGEST: Final = 1 << 16
"""Characters of such an output."""


class AssessedLeaf(NamedTuple):
    """A scalar of an output, and what it counts for.

    Args:
        path: of its field.
        body: as it would be written.
        prose: whether it accuses, as a stranger's words.
        record: its worth as a record; None where it authorises nothing.
        id: the kind of thing that it identifies.
        formed: whether nothing but its form makes a record of it.
    """

    path: str
    body: str
    prose: bool
    record: Standing | None
    id: str
    formed: bool


class AssessedOutput(NamedTuple):
    """An output, and what it counts for.

    Args:
        leaves: those that are not empty.
        asked: whether the trusted query names the document that it is.
        place: the site that it was fetched from; empty where that is not known.
    """

    leaves: tuple[AssessedLeaf, ...]
    asked: bool
    place: str


class RecentOutputs:
    """The last outputs that were assessed, of any conversation. An answer depends on the arguments alone."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: deque[_Known] = deque(maxlen=KEPT)

    def find(
        self, asked: TrustedWords, policy: Policy, seen: Observation, assess: Callable[[], AssessedOutput]
    ) -> AssessedOutput:
        """Give what an output is worth by a principal's words and a policy, as it was found before or is now."""
        said = seen.source, _key(seen.leaves), _key(seen.arguments)
        for known in self._known:
            if known.asked is asked and known.policy is policy and known.said == said:
                return known.found
        found = assess()
        if sum(len(leaf.body) for leaf in found.leaves) <= LONGEST:
            self._known.appendleft(_Known(asked, policy, said, found))
        return found


class _Known(NamedTuple):
    """An output that was assessed, and by what."""

    asked: TrustedWords
    policy: Policy
    said: tuple[object, ...]
    found: AssessedOutput


def _key(leaves: tuple[Leaf, ...]) -> tuple[object, ...]:
    """Everything of leaves that is assessed. Numbers that are equal are not written alike: 1 and 1.0."""
    return tuple(
        (leaf.path, type(leaf.value), text_of(leaf.value), leaf.standing, leaf.id) for leaf in leaves
    )
