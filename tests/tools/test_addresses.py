from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.tools.fetch import is_allowed, parse_networks


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.8.8.8", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
        "224.0.0.1", "255.255.255.255", "240.0.0.1", "192.0.2.1", "198.18.0.1",
        "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12::1", "ff02::1", "2001:db8::1",
        "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:a9fe:a9fe", "2002:7f00:1::", "2002:a9fe:a9fe::",
        "64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe", "::127.0.0.1", "2001:0:7f00:1::1",
        "fec0::1", "::ffff:0:127.0.0.1", "64:ff9b:1::127.0.0.1", "4000::1", "5f00::1", "1::1",
    ],
)  # fmt: skip
def test_hosts_outside_the_public_internet_are_refused(address):
    assert not is_allowed(address)


@pytest.mark.parametrize("prefix", ["2606:4700:1:2", "2a00:1:2:3", "fe80::", "::"])
@pytest.mark.parametrize("universal", ["0", "200"])
def test_a_private_machine_under_an_address_that_it_gave_itself_is_refused(prefix, universal):
    place = (
        f"{prefix}:{universal}:5efe".replace(":::", "::") if prefix != "fe80::" else f"fe80::{universal}:5efe"
    )
    for private in ("10.0.0.1", "127.0.0.1", "169.254.169.254"):
        assert not is_allowed(f"{place}:{private}")


def test_a_public_machine_under_an_address_that_it_gave_itself_is_allowed():
    assert is_allowed("2606:4700:1:2:0:5efe:1.1.1.1")
    assert is_allowed("2606:4700:1:2:200:5efe:1.1.1.1")


@pytest.mark.parametrize("address", ["1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "::ffff:1.1.1.1"])
def test_the_public_internet_is_allowed(address):
    assert is_allowed(address)


def test_a_network_that_is_named_is_allowed_under_each_of_its_names_and_no_other_is():
    more = parse_networks(["127.0.0.0/8", "fd00::/8"])
    assert is_allowed("127.0.0.1", more)
    assert is_allowed("::ffff:127.0.0.1", more)
    assert is_allowed("fd00::1", more)
    assert not is_allowed("10.0.0.1", more)
    assert not is_allowed("::1", more)


@pytest.mark.parametrize("text", ["10.0.0.1/8", "example.org", ""])
def test_an_invalid_network_is_an_error(text):
    with pytest.raises(ValueError, match=r"."):
        parse_networks([text])


@given(st.ip_addresses(v=4))
def test_an_address_of_version_4_is_judged_the_same_in_an_address_of_version_6(address):
    assert is_allowed(f"::ffff:{address}") == is_allowed(str(address))
    assert is_allowed(str(address)) or not is_allowed(f"64:ff9b::{address}")
