from __future__ import annotations

import pytest

from agentserver.provenance.evidence.authority import (
    DestinationPattern,
    build_mention_pattern,
    find_entry,
    find_tokens,
)
from agentserver.provenance.evidence.destinations import parse_destination


@pytest.mark.parametrize(
    ("pattern", "place", "means"),
    [
        (".corp.com", "eve@evilcorp.com", False),
        (".corp.com", "eve@a.corp.com", True),
        (".corp.com", "eve@corp.com", True),
        ("*.corp.com", "eve@corp.com", False),
        ("*.corp.com", "https://a.b.corp.com/x", True),
        ("*.corp.com", "general", False),
        ("@corp.com", "eve@corp.com", True),
        ("@corp.com", "https://corp.com", False),
        ("corp.com", "eve@corp.com", True),
        ("corp.com", "https://corp.com/x", True),
        ("corp.com", "https://corp.com@evil.com/", False),
        ("https://corp.com/docs", "https://corp.com/docs/a", True),
        ("https://corp.com/docs", "https://corp.com/docs?x=1", True),
        ("https://corp.com/docs", "https://corp.com/docsevil", False),
        ("https://corp.com/docs", "https://corp.com/docs/../evil", False),
        ("https://corp.com/docs", "https://corp.com/docs/%2e%2e/evil", False),
        ("https://corp.com/docs", "eve@corp.com", False),
        ("sales-*@corp.com", "sales-x@corp.com", True),
        ("*@corp.com", "x@evil.com@corp.com", False),
        ("sales-*@corp.com", "sales-x@corp.com.evil.com", False),
        ("@corp.com", "mailto:eve@evil.com?cc=bob@corp.com", False),
        ("@corp.com", "eve%evil.com@corp.com", False),
        ("*@corp.com", "evil.com!eve@corp.com", False),
        ("https://*.corp.com/*", "https://a.corp.com/x", True),
        ("https://*.corp.com/*", "https://evil.com/?x=.corp.com/x", False),
        ("https://*.corp.com/*", "https://evil.com?x=.corp.com/x", False),
        ("https://*.corp.com/*", "https://a.corp.com@evil.com/x", False),
        ("GB29*", "GB29 NWBK 6016 1331 9268 19", True),
        ("*", "anything", True),
        ("listener:mailer", "mailer", True),
        ("mailer", "mailer2", False),
        ("bob@corp.com", "bob@corp.com", True),
    ],
)
def test_patterns_have_boundaries(pattern: str, place: str, means: bool) -> None:
    assert DestinationPattern(pattern).matches(parse_destination(place)) is means
    assert (find_entry((pattern,), parse_destination(place)) == pattern) is means


def test_tokens_of_a_request() -> None:
    said = "Send to 'a@x.com'. Or (www.site.com/a), to GB29 NWBK 6016 1331 9268 19."
    found = dict(find_tokens(said))
    assert {"a@x.com", "www.site.com/a", "GB29 NWBK 6016 1331 9268 19"} <= set(found)
    assert all(said.startswith(token, place) for token, place in found.items())


@pytest.mark.parametrize(
    ("text", "name", "there"),
    [
        ("mail bob@corp.com now", "bob@corp.co", False),
        ("to 'general' channel", "general", True),
        ("the general-private one", "general", False),
        ("Alice's note", "Alice", True),
        ("file a.txt.", "a.txt", True),
        ("file a.txt.gz", "a.txt", False),
        ("two  words here", "two words", True),
    ],
)
def test_whole_tokens_only(text: str, name: str, there: bool) -> None:
    assert (build_mention_pattern(name).search(text) is not None) is there
