"""The rate of refused requests, by address. Time is the test's."""

from agentserver.gateways.principals.callers import ADDRESSES, REFUSALS, RefusedAddresses


def test_refusals_are_counted_by_address_and_for_ipv6_by_network():
    refused = RefusedAddresses()
    for number in range(REFUSALS.count):
        assert refused.take("192.0.2.1", 1.0) == refused.take(f"2001:db8::{number:x}", 1.0) == 0.0
    assert 0 < refused.take("192.0.2.1", 1.0) <= 0.5
    assert refused.take("2001:db8::ffff:1%eth0", 1.0) > 0
    assert (
        refused.take("192.0.2.2", 1.0) == refused.take("2001:db8:0:1::1", 1.0) == refused.take("", 1.0) == 0.0
    )
    assert refused.take("192.0.2.1", 1.6) == 0.0


def test_a_stranger_with_many_addresses_takes_only_the_memory_reserved_for_them():
    refused = RefusedAddresses()
    for number in range(ADDRESSES + 100):
        refused.take(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", 1.0)
    assert len(refused) == ADDRESSES + 1
    refused.take("192.0.2.1", 1000.0)
    assert len(refused) == 1
