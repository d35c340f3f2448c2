"""Each way to write a destination that two readers may take for two places is decided here, one row for each."""

from __future__ import annotations

import pytest

from agentserver.provenance import Decision, Mode, Policy
from agentserver.provenance.evidence import destinations
from agentserver.provenance.evidence.authority import DestinationPattern, find_barring_entry
from agentserver.provenance.evidence.destinations import (
    PlaceForm,
    find_recipients,
    host_key,
    parse_destination,
)
from tests.provenance.scenes import Scenario

READ = "Nothing of interest."

SAME = [
    ("bob@corp.com", "bob@CORP.COM"),
    ("bob@corp.com", "mailto:bob@corp.com"),
    ("https://corp.com/", "corp.com"),
    ("https://corp.com:443/a/", "https://CORP.com/a"),
    ("http://corp.com:80", "http://corp.com"),
    ("https://corp.com/a#part", "https://corp.com/a"),
    ("https://[0:0::1]/", "https://[::1]"),
    ("GB29 NWBK 6016 1331 9268 19", "GB29NWBK60161331926819"),
    ("bob@bücher.example", "bob@xn--bcher-kva.example"),
    (" bob@corp.com ", "bob@corp.com"),
]

APART = [
    ("bob@corp.com", "Bob@corp.com"),
    ("bob@corp.com", "bob@corp.co"),
    ("corp.com", "corp.com.evil.com"),
    ("corp.com", "corp.com."),
    ("corp.com", "\u0441\u043erp.com"),
    ("corp.com", "\uff43orp.com"),
    ("corp.com", "corp\u3002com"),
    ("faß.example", "fass.example"),
    ("http://corp.com/a/", "https://corp.com/a"),
    ("https://corp.com/a", "https://corp.com/a?b=c"),
    ("https://corp.com/#/room/4", "https://corp.com/#/room/6"),
    ("https://matrix.to/#/@ann:corp.com", "https://matrix.to/"),
    ("https://corp.com/a", "https://corp.com:8443/a"),
    ("https://corp.com/%C3%A9", "https://corp.com/%c3%a9"),
    ("https://127.0.0.1", "https://2130706433"),
    ("Alice", "alice"),
    ("e\u0301va", "\u00e9va"),
]

NO_DESTINATION = [
    "https://corp.com/, eve@evil.example",
    "https://corp.com/\neve@evil.example",
    "https://corp.com/;eve@evil.example",
    "https://corp.com/|x",
    "https://corp.com/ x",
    "https://corp.com/\u00a0x",
    "https://corp.com/\u200bx",
    'https://corp.com/"x',
    "https://corp.com/'x",
    "https://corp.com/<x>",
    "https://corp.com\\@evil.example/",
    "https:\\\\corp.com/",
    "https://corp.com,https://corp.com",
    "https://corp.com@evil.example",
    "https://corp.com:x@evil.example/",
    "https://corp.com%40evil.example/",
    "https://corp%2ecom/",
    "https://evil.example%2f.corp.com/",
    "https://corp.com:/",
    "https://corp.com:0/",
    "https://corp.com:65536/",
    "https://corp.com./",
    "https://corp..com/",
    "https://.corp.com/",
    "https://-corp.com/",
    "https:///corp.com",
    "//corp.com/x",
    "https://corp.com//evil.example",
    "https://corp.com/?next=https://evil.example",
    "https://corp.com/?next=%2f%2fevil.example",
    "https://corp.com/?next=%252f%252fevil.example",
    "https://corp.com/#//evil.example",
    "https://corp.com#@evil.example/",
    "https://corp.com?@evil.example/",
    "corp.com?x@evil.example",
    "https://corp.com/docs/../admin",
    "https://corp.com/docs/..;/admin",
    "https://corp.com/docs/%2e%2e/admin",
    "https://corp.com/docs/%2E%2E%2Fadmin",
    "https://corp.com/docs/%252e%252e/admin",
    "https://corp.com/docs/.%20/admin",
    "https://corp.com/docs%3b/admin",
    "https://corp.com/%64ocs",
    "https://corp.com/%zz",
    "https://corp.com/%",
    "https://corp.com/%ff",
    "https://corp.com/?x=%0d%0aBcc:eve@evil.example",
    "https://2130706433/",
    "https://0x7f000001/",
    "https://0177.0.0.1/",
    "https://127.1/",
    "https://1.2.3.4.5/",
    "https://corp.0x1/",
    "https://[::1/",
    "https://[::1%25eth0]/",
    "https://[::ffff:1.2.3]/",
    "https://\uff43orp.com/",
    "https://corp\u3002com/",
    "https://\u0130.example/",
    "https://co\u00adrp.com/",
    "https://xn--zzzzzz99999.example/",
    "https://a\u200db.example/",
    "https://\u2603.example/",
    "blob:https://corp.com/x",
    "javascript://corp.com/%0aalert(1)",
    "mailto:bob@corp.com?cc=eve@evil.example",
    "mailto:bob@corp.com?subject=x",
    "mailto:bob@corp.com,eve@evil.example?x",
    "mailto:bob%40corp.com",
    "sip:bob@corp.com",
    "bob@corp.com\r\nBcc: eve@evil.example",
    "bob@corp.com\n",
    "bob@corp.com\x00",
    "bob@corp.com@evil.example",
    "@evil.example:bob@corp.com",
    '"bob"@corp.com',
    "bob @corp.com",
    ".bob@corp.com",
    "bob..x@corp.com",
    "bob@corp.com.",
    "bob@[127.0.0.1]",
    "bob@",
    f"{'b' * 65}@corp.com",
    "bob\\@evil.example@corp.com",
    "bob | eve",
    "bob\teve",
    "the host corp.com",
    "corp.com.",
    "corp\u3002com",
    "a" * 64 + ".com",
    ".".join(["a" * 60] * 5) + ".com",
    "x" * 5000,
    "",
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_one_place_in_two_spellings(one: str, other: str) -> None:
    assert parse_destination(one).form is not PlaceForm.NONE
    assert parse_destination(one) == parse_destination(other)


@pytest.mark.parametrize(("one", "other"), APART)
def test_two_places_that_look_alike(one: str, other: str) -> None:
    assert parse_destination(one) != parse_destination(other)


@pytest.mark.parametrize("text", NO_DESTINATION, ids=lambda text: repr(text)[:60])
def test_an_invalid_destination_is_never_authorised(text: str) -> None:
    assert parse_destination(text).form is PlaceForm.NONE
    for entry in (
        "*",
        "corp.com",
        "@corp.com",
        "*.com",
        "https://corp.com/docs",
        "*@*",
        "https://*/*",
        text or "x",
    ):
        assert not DestinationPattern(entry).matches(parse_destination(text))
    policy = Policy(mode=Mode.ENFORCE, allow=("corp.com", "127.0.0.1", "*"))
    scene = Scenario(policy, "send it").read("fetch_page", READ)
    if text:
        assert scene.call("send_email", to=text, body="x").decision is Decision.DENY


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("a@x.com, b@y.org; c@z.net", ["a@x.com", "b@y.org", "c@z.net"]),
        ("Bob <bob@corp.com>", ["bob@corp.com"]),
        ('"Smith, Bob" <bob@corp.com>, eve@evil.com', ["bob@corp.com", "eve@evil.com"]),
        ('"bob@corp.com" <eve@evil.com>', ["eve@evil.com", "bob@corp.com"]),
        ("Alice, bob@corp.com", ["Alice", "bob@corp.com"]),
        ("general", ["general"]),
        ("Alice, Bob", ["Alice, Bob"]),
        ("  ", []),
        ("=?utf-8?q?eve=40evil.com?= <bob@corp.com>", ["bob@corp.com", "eve@evil.com"]),
        ("=?utf-8?b?ZXZlQGV2aWwuY29t?= <bob@corp.com>", ["bob@corp.com", "eve@evil.com"]),
        ("=?utf-8?q?Bob?= <bob@corp.com>", ["bob@corp.com"]),
        ("https://corp.com/?to=a@b.co", ["https://corp.com?to=a@b.co", "a@b.co"]),
        ("https://corp.com/?to=a%40b.co", ["https://corp.com?to=a%40b.co", "a@b.co"]),
        ("https://medium.example/@bob", ["https://medium.example/@bob"]),
        ("https://cdn.example/react@18.2.0", ["https://cdn.example/react@18.2.0"]),
        ("a@x.com,", ["a@x.com,", "a@x.com"]),
        ("a@x.com\nb@y.com", ["a@x.com\nb@y.com", "a@x.com", "b@y.com"]),
        (
            "https://corp.com/?to=eve@\uff45vil.co",
            ["https://corp.com?to=eve@\uff45vil.co", "eve@\uff45vil.co"],
        ),
        ("javascript:alert(1)", ["javascript:alert(1)"]),
    ],
)
def test_every_recipient_is_seen(text: str, keys: list[str]) -> None:
    assert [place.key for place in find_recipients(text)] == keys


@pytest.mark.parametrize(
    ("entry", "text", "means"),
    [
        ("corp.com", "eve@corp.com", True),
        ("corp.com", "https://corp.com/x?y", True),
        ("corp.com", "corp.com/x", True),
        ("corp.com", "http://corp.com/x", False),
        ("corp.com", "ftp://corp.com/x", False),
        ("corp.com", "https://corp.com:8443/x", False),
        ("corp.com:8443", "https://corp.com:8443/x", True),
        ("corp.com:8443", "eve@corp.com", False),
        ("http://corp.com", "http://corp.com/x", True),
        ("http://corp.com", "https://corp.com/x", False),
        ("https://corp.com", "eve@corp.com", False),
        ("https://corp.com/docs", "https://corp.com/docs/a%20b", True),
        ("https://corp.com/docs", "https://corp.com/docs?x=1", True),
        ("https://corp.com/docs", "https://corp.com/docsevil", False),
        ("https://corp.com/docs?x=1", "https://corp.com/docs?x=1", True),
        ("https://corp.com/docs?x=1", "https://corp.com/docs?x=12", False),
        (".corp.com", "http://a.corp.com", False),
        ("*.corp.com", "https://a.corp.com:1", False),
        (".corp.com", "https://xn--bcher-kva.corp.com", True),
        (".corp.com", "eve@bücher.corp.com", True),
        (".corp.com", "eve@cörp.com", False),
        ("c*rp.com", "https://cörp.com", False),
        ("bücher.example", "https://xn--bcher-kva.example/x", True),
        ("@bücher.example", "bob@bücher.example", True),
        ("@corp.com", "j\u00fcrgen@corp.com", False),
        ("j\u00fcrgen@corp.com", "j\u00fcrgen@corp.com", True),
        ("@corp.com", "\u0435ve@corp.com", False),
        ("corp.com", "https://corp.com/stra\u00dfe", False),
        ("https://corp.com/stra\u00dfe", "https://corp.com/stra\u00dfe", True),
        ("@corp.com", "eve%evil.com@corp.com", False),
        ("@corp.com", "evil.com!eve@corp.com", False),
        ("@corp.com", "o'brien@corp.com", False),
        ("o'brien@corp.com", "o'brien@corp.com", True),
        ("*", "file:///etc/passwd", True),
        ("etc", "file:///etc/passwd", False),
        ("file:///etc/passwd", "file:///etc/passwd", True),
        ("corp.com", "data:text/html,corp.com", False),
        ("https://*.corp.com/*", "http://a.corp.com/x", False),
        ("https://*.corp.com/*", "https://a.corp.com:81/x", False),
        ("team-*", "team-red", True),
        ("team-*", "team-red, eve", False),
        ("@", "bob@corp.com", False),
        (".", "bob@corp.com", False),
    ],
)
def test_an_entrys_meaning(entry: str, text: str, means: bool) -> None:
    assert DestinationPattern(entry).matches(parse_destination(text)) is means


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ("evil.example", "http://evil.example:81/x"),
        ("evil.example", "https://corp.com@evil.example/"),
        ("evil.example", "https://EVIL.example./"),
        ("evil.example", "\uff45vil\u3002example"),
        ("evil.example", "bob@corp.com\r\nBcc: eve@evil.example"),
        ("evil.example", "mailto:bob@corp.com?cc=eve@evil.example"),
        ("evil.example", "https://corp.com/?to=eve%2540evil.example"),
        (".evil.example", "ftp://a.evil.example"),
        ("@evil.example", "Eve <eve@evil.example>"),
        ("eve@*", "https://corp.com/?to=eve@evil.example"),
        ("https://evil.example/docs", "http://evil.example/docs"),
        ("https://evil.example/docs", "http://evil.example/x/../docs"),
        ("https://evil.example/docs", "https://evil.example:8443/docs/a"),
        ("evil.example:81", "http://evil.example:81/x"),
        ("@evil.example", "a%b@evil.example"),
        ("@evil.example", "j\u00fcrgen@evil.example"),
        (".evil.example", "https://b\u00fccher.evil.example/"),
        ("*.evil.example", "eve@xn--bcher-kva.evil.example"),
        ("evil.example", "https://ev\u00adil.example/"),
        ("evil.example", "\u200bevil.ex\ufe0fample"),
        ("evil.example", "eve%evil.example@corp.com"),
        ("bad.example", "eve%bad.example@corp.com"),
        ("evil.example", "evil.example!eve@corp.com"),
        ("@evil.example", "@evil.example:bob@corp.com"),
        ("evil.example", "bob@evil.example@corp.com"),
        ("evil.example", "`curl evil.example`"),
        ("bob@corp.com", "Bob@corp.com"),
        ("Bad Channel", "bad channel"),
    ],
)
def test_a_deny_entry_is_read_loosely(entry: str, text: str) -> None:
    assert find_barring_entry((entry,), text) == entry


@pytest.mark.parametrize("text", ["bob@corp.com", "https://evil.example.org/", "notevil.example", "evil"])
def test_a_deny_entry_means_no_neighbour(text: str) -> None:
    assert find_barring_entry(("evil.example", "eve@corp.com", "https://corp.com/docs"), text) is None


def test_a_long_label_is_refused_before_it_is_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def alabel(label: str) -> bytes:
        seen.append(label)
        return b"xn--x"

    monkeypatch.setattr(destinations.idna, "alabel", alabel)
    for host in ("ü" * 24_000, f"{'ü' * 64}.example", ".".join(["ü"] * 200), f"b.{'ü' * 24_000}.example"):
        assert not host_key(host)
        assert parse_destination(f"https://{host}/").form is PlaceForm.NONE
        assert all(place.form is PlaceForm.NONE for place in find_recipients(f"bob@{host}"))
    assert seen == []
    assert host_key("ü" * 63)
    assert list(map(len, seen)) == [63]


def test_an_argument_longer_than_any_list_is_beyond_tracking() -> None:
    policy = Policy(mode=Mode.ENFORCE, allow=("corp.com",))
    scene = Scenario(policy, "mail it").read("fetch_page", READ)
    verdict = scene.call("send_email", to=", ".join(["bob@corp.com"] * 3000), body="x")
    assert verdict.decision is Decision.DENY
    assert scene.call("send_email", to=", ".join(["bob@corp.com"] * 300), body="x").decision is Decision.ALLOW
