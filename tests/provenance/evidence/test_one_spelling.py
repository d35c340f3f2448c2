"""An entry of any list means a host in both of its spellings, in letters and in A-labels, and is itself in either."""

from __future__ import annotations

import idna
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from agentserver.provenance import Decision
from agentserver.provenance.confidentiality.readers import admits
from agentserver.provenance.evidence.authority import DestinationPattern, find_barring_entry
from agentserver.provenance.evidence.destinations import parse_destination
from tests.fuzzing import examples
from tests.provenance.scenes import Scenario, desk

ENTRIES = [
    "{0}",
    "@{0}",
    ".{0}",
    "*.{0}",
    "eve@{0}",
    "*@{0}",
    "*@*.{0}",
    "https://{0}",
    "https://{0}/docs",
    "https://*.{0}/*",
]
PLACES = ["eve@{0}", "eve@a.{0}", "https://{0}/", "https://a.{0}/docs/x", "https://{0}/docs/x", "eve@not{0}"]
LETTERS = st.sampled_from("aeinorstxäöüßéñçøåðабвгджилиαβγδεςσ中文字例テスト한글ไทย")
LABELS = st.text(LETTERS, min_size=2, max_size=12)


def spellings(label: str) -> tuple[str, str]:
    """A host in letters and in A-labels."""
    try:
        return f"{label}.example", f"{idna.alabel(label).decode()}.example"
    except UnicodeError:
        assume(False)
        raise


@settings(max_examples=examples(300))
@given(LABELS, st.sampled_from(ENTRIES), st.sampled_from(PLACES), st.booleans(), st.booleans())
def test_an_entry_means_the_same_in_each_spelling_as_one_of_ascii(label, entry, place, first, second):
    assume(not label.isascii())
    both = spellings(label)
    written, reached = entry.format(both[first]), place.format(both[second])
    if place == "eve@not{0}":
        reached = f"eve@{spellings('not' + label)[second]}"
    meant = DestinationPattern(entry.format("plain.example")).matches(
        parse_destination(place.format("plain.example"))
    )
    place_ = parse_destination(reached)
    assert DestinationPattern(written).matches(place_) is meant
    assert admits(((written,),), place_, ()) is meant
    denied = find_barring_entry((entry.format("plain.example"),), place.format("plain.example")) is not None
    assert (find_barring_entry((written,), reached) is not None) is denied


@pytest.mark.parametrize("entry", [".{0}", "*.{0}", "@a.{0}", "*@*.{0}", "a.{0}"])
@pytest.mark.parametrize("reached", [0, 1])
@pytest.mark.parametrize("written", [0, 1])
@pytest.mark.parametrize("host", ["müllsammler.example", "straße.example", "пример.example"])
def test_a_host_beyond_ascii_is_denied_and_allowed_in_either_spelling(host, entry, written, reached):
    both = spellings(host.partition(".")[0])
    entry, to = entry.format(both[written]), f"eve@a.{both[reached]}"
    for policy, query, decision in (
        (desk(deny=(entry,)), f"mail {to}", Decision.DENY),
        (desk(allow=(entry,)), "mail it", Decision.ALLOW),
    ):
        scene = Scenario(policy, query).read("fetch_page", {"text": "Nothing of interest."})
        assert scene.call("send_email", to=to, body="x").decision is decision, policy


def test_a_look_alike_of_an_entry_has_other_letters():
    allowed = DestinationPattern(".corp.example")
    assert not allowed.matches(parse_destination("eve@cоrp.example"))
    assert not DestinationPattern("*@cörp.example").matches(parse_destination("eve@corp.example"))
