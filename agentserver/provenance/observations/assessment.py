"""Parts of the assessment of an output: fields in declared text layouts, echoes of arguments, and a cache."""

from __future__ import annotations

from dataclasses import replace
from operator import is_
from typing import TYPE_CHECKING, Final, NamedTuple

from agentserver.provenance.evidence.folding import fold
from agentserver.provenance.evidence.labels import Standing
from agentserver.provenance.evidence.layouts import TextLayout, parse_layout
from agentserver.provenance.evidence.leaves import build_typed_key, format_text, leaves
from agentserver.provenance.observations.choosing import FoundFields
from agentserver.provenance.policy import forms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from agentserver.provenance.evidence.labels import Leaf, Observation
    from agentserver.provenance.policy.declarations import Policy
    from agentserver.provenance.request.trusted_words import TrustedWords

NOTHING_FOUND: Final = FoundFields()
DAY: Final = 86_400
"""Seconds of a day, by which relative days of the request are read."""
LONGEST_ECHO: Final = 100
"""Longest evidence form that may count as joined arguments; no field guarantees a longer value."""
SHORTEST_ECHO: Final = 8
"""Shortest evidence form that may count as joined arguments; shorter ones coincide by chance."""


class AssessedLeaf(NamedTuple):
    """Scalar of an output with its assessment.

    Args:
        path: of its field.
        body: the scalar as text.
        prose: whether it counts as a stranger's text.
        record: the trust in it as a record; None if it authorises nothing.
        id: the kind of object that it identifies.
        formed: whether only its form makes it a record.
        chosen: whether the principal's words chose its record.
    """

    path: str
    body: str
    prose: bool
    record: Standing | None
    id: str
    formed: bool
    chosen: bool


class AssessedOutput(NamedTuple):
    """Output with its assessment.

    Args:
        leaves: the leaves that are not empty.
        asked: whether the trusted request names this document.
        place: the site that it was fetched from; empty if unknown.
        names: the arguments of its call that name it.
        found: the fields of a trusted listener's records that others than the principal selected.
    """

    leaves: tuple[AssessedLeaf, ...]
    asked: bool
    place: str
    names: tuple[str, ...] = ()
    found: FoundFields = NOTHING_FOUND


def may_name_receiver(body: str) -> bool:
    """Check whether a field of a chosen record is no running text, so that it may say who receives."""
    return not (forms.has_prose(body) or forms.is_long(body))


def choose(leaf: AssessedLeaf) -> AssessedLeaf:
    """Return a field of a trusted record as one of a record that the principal chose."""
    return leaf._replace(
        chosen=True, record=Standing.DIRECTORY if may_name_receiver(leaf.body) else leaf.record
    )


class LastAssessment:
    """Last assessment of one message, which is assessed when it is judged and for each listener that receives it.

    Leaves and arguments are compared by identity, since equal numbers such as 1 and 1.0 differ in text.
    """

    __slots__ = ("_about", "_basis", "_found")

    def __init__(self) -> None:
        self._basis: tuple[object, ...] = ()
        self._about: tuple[object, ...] = ()
        self._found: AssessedOutput | None = None

    def find(
        self, request: TrustedWords, policy: Policy, seen: Observation, assess: Callable[[], AssessedOutput]
    ) -> AssessedOutput:
        """Return the assessment of an output for a request and a policy, the last one or by ``assess``."""
        basis = request, policy, seen.leaves, seen.arguments
        about = seen.source, seen.unexposed, int(seen.time // DAY)
        found = self._found
        if found is None or about != self._about or not all(map(is_, basis, self._basis)):
            self._found = found = assess()
            self._basis, self._about = basis, about
        return found


class Echoes:
    """Arguments of a listener, which prove nothing when it repeats or joins them.

    Args:
        request: the principal's words, with which each value is read once: the answer to one call is often the next.
        arguments: of the listener.
    """

    def __init__(self, request: TrustedWords, arguments: Iterable[Leaf]) -> None:
        self._request = request
        read = [request.read_once(format_text(leaf.value), _read_forms) for leaf in arguments]
        self._keys = {key for key, _ in read}
        self._forms = {form for _, form in read} - {""}
        self._lengths = {len(form) for form in self._forms if len(form) <= LONGEST_ECHO}

    def contain(self, body: str) -> bool:
        """Return whether a value repeats an argument or joins several, so that it has no other origin."""
        key, form = self._request.read_once(body, _read_forms)
        if key in self._keys:
            return True
        return SHORTEST_ECHO <= len(form) <= LONGEST_ECHO and self._is_joined(form)

    def _is_joined(self, form: str) -> bool:
        """Return whether a form is a concatenation of arguments."""
        reached, queue = {0}, [0]
        while queue:
            place = queue.pop()
            ends = {place + each for each in self._lengths if form[place : place + each] in self._forms}
            queue += ends - reached
            reached |= ends
        return len(form) in reached


def _read_forms(_: TrustedWords, body: str) -> tuple[str, str]:
    """Read the key by which a value is compared, and its evidence form."""
    form = fold(body)
    return _build_number_key(body) or form, form


def _build_number_key(body: str) -> str:
    """Build the key of a number, which is compared by value; empty for words and moments: two may share a day."""
    begin = body.strip()[:1]
    kind = build_typed_key(body) if begin.isdecimal() or begin in "+-" else None
    return kind if kind is not None and kind.startswith("number") else ""


def parse_layouts(policy: Policy, seen: Observation) -> Observation:
    """Replace each text that has a declared layout by its fields.

    Only a declaration counts: a stranger who can write into a text can also imitate a layout.
    """
    if not policy.layouts:
        return seen
    return replace(
        seen, leaves=tuple(part for leaf in seen.leaves for part in _parse_leaf(policy, seen.source, leaf))
    )


def _parse_leaf(policy: Policy, source: str, leaf: Leaf) -> Iterator[Leaf]:
    """Parse a text into its fields or return it unchanged. Declarations of its payload's type have precedence."""
    if leaf.inside:  # JSON arrives as separate leaves
        own = not leaf.readers and policy.layout_of(source, leaf.inside) is TextLayout.JSON
        yield replace(leaf, standing=None, inside="") if own else leaf
        return
    layout = policy.layout_of(source, leaf.path) if leaf.standing is None and not leaf.readers else None
    found = parse_layout(leaf.value, layout) if layout is not None and isinstance(leaf.value, str) else None
    yield from (leaf,) if found is None else leaves(found, leaf.path)
