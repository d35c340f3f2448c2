import contextlib
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.core.state.principals import Principal, Trust
from agentserver.gateways.principals import Caller, Rate, Role, document
from agentserver.gateways.principals.document import FormerToken, PrincipalEntry

NAMES = st.text("abcdefgh -é", min_size=1, max_size=9).filter(lambda name: name == name.strip())
DIGESTS = st.text("0123456789abcdef", min_size=64, max_size=64)


@st.composite
def entries(draw):
    found = []
    for name in draw(st.lists(NAMES, unique=True, max_size=4)):
        revoked = draw(st.none() | st.floats(0, 1e10))
        digest = draw(DIGESTS) if revoked is None else ""
        may = draw(st.none() | st.lists(NAMES, max_size=2).map(tuple))
        principal = Principal(name, draw(st.sampled_from(Trust)), may)
        rate = Rate(draw(st.integers(1, 999_999)), draw(st.sampled_from("smh")))
        role = draw(st.sampled_from(Role))
        caller = Caller(principal, role, rate, draw(st.integers(0, 1_000_000)), digest)
        caller = replace(caller, listener="greeter" if role is Role.WORKER else "")
        found.append(PrincipalEntry(caller, digest, draw(st.floats(0, 1e10)), revoked))
    return tuple({each.digest or id(each): each for each in found}.values())


@given(entries())
def test_a_written_document_is_read_back(found):
    assert document.read(document.write(found)) == found


LINE = {
    "name": "ada",
    "role": "user",
    "trust": "stranger",
    "may": [],
    "rate": "10/s",
    "open": 20,
    "token": "0" * 64,
    "added": 1.0,
    "revoked": None,
}


def text(*lines, **more):
    return json.dumps({"form": 1, "principals": lines} | more).encode()


def test_the_line_of_these_tests_is_read():
    assert [each.caller.name for each in document.read(text(LINE))] == ["ada"]


@pytest.mark.parametrize(
    "change",
    [
        {"name": ""},
        {"name": " ada"},
        {"name": "system"},
        {"name": 1},
        {"role": "root"},
        {"role": "worker"},
        {"listener": "greeter"},
        {"role": "worker", "listener": "g" * 129},
        {"trust": "all"},
        {"may": "greeter"},
        {"rate": "much"},
        {"open": -1},
        {"open": True},
        {"token": "0" * 63},
        {"token": "0" * 64 + "\n"},
        {"token": "G" * 64},
        {"token": None},
        {"revoked": 1.0},
        {"added": "today"},
        {"more": 1},
        {"former": {"token": "0" * 64, "until": 1.0}},
        {"former": {"token": "1" * 63, "until": 1.0}},
        {"former": {"token": "1" * 64}},
        {"former": {"token": "1" * 64, "until": 1.0}, "token": None, "revoked": 2.0},
    ],
    ids=str,
)
def test_a_line_with_another_value_makes_the_file_unreadable(change):
    with pytest.raises(ValueError, match=r"\w"):
        document.read(text(LINE | change))


@pytest.mark.parametrize("key", LINE)
def test_a_line_says_all_of_it(key):
    with pytest.raises(ValueError, match=key):
        document.read(text({name: value for name, value in LINE.items() if name != key}))


@pytest.mark.parametrize(
    "data",
    [
        b"", b"[]", b"{}", b"\xff", text(form=2), text(form="1"), text(more=1), text(LINE, LINE),
        text(LINE, LINE | {"name": "eve"}), text(LINE, LINE | {"token": "1" * 64}),
    ],
    ids=repr,
)  # fmt: skip
def test_a_file_of_another_form_is_illegible(data):
    with pytest.raises(ValueError, match=r"\w"):
        document.read(data)


def test_a_duplicate_member_makes_the_file_unreadable():
    once = text(LINE).decode()
    assert document.read(once.encode())
    with pytest.raises(ValueError, match="once"):
        document.read(once.replace('"role"', '"role": "user", "role"').encode())


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data):
    with contextlib.suppress(ValueError):
        document.read(data)


def test_a_former_token_is_written_and_read_and_ends_with_the_principal():
    before = document.read(text(LINE))
    once = document.rotate_entry(before, "ada", "1" * 64, 50.0)
    assert document.read(document.write(once)) == once
    assert (once[0].digest, once[0].former) == ("1" * 64, FormerToken("0" * 64, 50.0))
    twice = document.rotate_entry(once, "ada", "2" * 64, 60.0)
    assert twice[0].former == FormerToken("1" * 64, 60.0)
    gone = document.revoke_entry(twice, "ada", 55.0)
    assert (gone[0].digest, gone[0].former) == ("", None)
    with pytest.raises(LookupError):
        document.rotate_entry(gone, "ada", "3" * 64, 70.0)


@pytest.mark.parametrize("name", ["mcp", "MCP", "console", "operator", "principal", "principal-1"])
def test_nobody_of_the_network_bears_the_name_of_a_principal_of_this_machine(name):
    with pytest.raises(ValueError, match="is the name of a principal of this machine"):
        document.read(text(LINE | {"name": name}))


@pytest.mark.parametrize("name", ["mcp-desk", "operator-ann", "principal-a1"])
def test_names_that_only_begin_like_one_of_this_machine_are_free(name):
    assert document.read(text(LINE | {"name": name}))
