"""Whatever passes names nothing outside of the allow list, by a second reading that shares no code with the first."""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import unquote

from hypothesis import given, settings
from hypothesis import strategies as st

from agentserver.provenance import Decision, Mode, Policy
from tests.fuzzing import examples
from tests.provenance.scenes import Scenario

HOSTS = [
    "corp.com",
    "a.corp.com",
    "evil.example",
    "corp.com.evil.example",
    "xn--bcher-kva.example",
    "127.0.0.1",
]
ODD = [
    "bücher.example",
    "\uff43orp.com",
    "corp\u3002com",
    "corp.com.",
    "2130706433",
    "[::1]",
    "corp..com",
    "CORP.com",
]
ALLOWED = [
    "corp.com",
    "@corp.com",
    ".corp.com",
    "https://corp.com/docs",
    "bob@corp.com",
    "general",
    "http://corp.com",
]
PIECE = st.sampled_from(
    [
        *HOSTS, *ODD, "bob", "eve", "@", "@", "://", "https://", "http://", "javascript:", "mailto:", "//", "/", "/docs",
        "/../", "/..;/", "%2e%2e", "%2f", "%40", "%0d%0a", "?", "?to=", "&", "#", ",", ";", "|", " ", "\n", "\r\nBcc: ",
        "<", ">", '"', "'", "\\", ":", ":443", ":8080", "\u200b", "\u00a0", "\t", ".", "general", "Bob ", "%",
    ]
)  # fmt: skip
TEXT = st.lists(PIECE, min_size=1, max_size=7).map("".join) | st.text(max_size=20)


def read_loosely(text):
    """Every host and address that any reader might find: the whole text is taken apart, nothing is parsed."""
    for _ in range(3):
        text = unquote(text)
    text = unicodedata.normalize("NFKC", text).lower().replace("\u3002", ".")
    for address in re.findall(r"[^\s,;<>\"'()\[\]|\\/?&=#:@]+@[^\s,;<>\"'()\[\]|\\/?&=#:@]+", text):
        yield address.rpartition("@")[0].strip("."), address.rpartition("@")[2].strip(".'!*")
    for authority in re.findall(r"(?:[/\\]{2})([^\s,;<>\"'|\\/?#]*)", text):
        yield None, authority.rpartition("@")[2]


def is_inside(local, host, allowed):
    """Whether a host, or an address at it, is one that some entry could mean."""
    site = host.removesuffix(":443").removesuffix(":80")
    sites = {"corp.com"} & {
        entry.removeprefix("@").rpartition("://")[2].partition("/")[0] for entry in allowed
    }
    if ".corp.com" in allowed:
        sites |= {"corp.com", "a.corp.com"}
    return site in sites or (local == "bob" and site == "corp.com" and "bob@corp.com" in allowed)


@settings(max_examples=examples(1500))
@given(TEXT, st.sets(st.sampled_from(ALLOWED)))
def test_nothing_outside_of_the_allow_list_passes(text, allowed):
    scene = Scenario(Policy(mode=Mode.ENFORCE, allow=tuple(allowed)), "send it")
    scene.read("fetch_page", "Nothing of interest.")
    if scene.call("send_email", to=text, body="x").decision is not Decision.ALLOW or not text.strip():
        return
    assert text.isprintable()
    for local, host in read_loosely(text):
        assert is_inside(local, host, allowed), (text, local, host)
    scheme = re.match(r"[a-z][a-z0-9+.-]*(?=:)", text, re.IGNORECASE)
    if scheme and "://" in text:
        assert scheme[0].lower() in {"https"} | {"http"} & {entry.partition("://")[0] for entry in allowed}
    assert ".." not in text
