"""The words for a broker that cannot be used: the place, the trouble, the way out."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentserver.broker.address import BrokerAddress
from agentserver.broker.remedies import explained

HERE = BrokerAddress("nats://a:1", place="organism.yaml:4: broker")


@pytest.mark.parametrize(
    ("trouble", "way"),
    [
        ("no broker at nats://a:1: refused", "start the broker, or correct the url"),
        ("STREAM.CREATE.x: JetStream not enabled for account", "enable JetStream"),
        ("no listener on $JS.API.STREAM.INFO.x", "enable JetStream"),
        ("the broker: replicas > 1 not supported in non-clustered mode", "say replicas: 1"),
        ("maximum number of streams reached", "more room"),
        ("insufficient storage resources available", "more room"),
        ('the broker\'s permissions refuse this user: publish to "x"', "cluster permissions"),
        (
            "the broker at nats://a:1 does not take this user: no",
            "name a file with user:password as credentials",
        ),
    ],
)
def test_a_trouble_is_told_with_the_place_of_the_address_and_the_way_out(trouble, way):
    told = explained(trouble, HERE)
    assert told.startswith(f"organism.yaml:4: broker: {trouble} (")
    assert way in told


def test_a_user_that_is_refused_is_told_with_its_file():
    told = explained(
        "the broker at nats://a:1 does not take this user: no", BrokerAddress("nats://a:1", Path("x.secret"))
    )
    assert "(correct x.secret, or the broker's users" in told


def test_other_troubles_stay_as_they_are():
    assert (
        explained("x.pem: is no PEM file of certificates", BrokerAddress("nats://a:1"))
        == "x.pem: is no PEM file of certificates"
    )


def test_the_place_makes_no_other_address():
    """Or an edition of the organism with a line more would ask for another broker."""
    assert BrokerAddress("nats://a:1", place="a:1") == BrokerAddress("nats://a:1", place="b:2")
