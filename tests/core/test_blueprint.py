from __future__ import annotations

from tests.core.paper import Ask, Note, listener, rules

SHOP = rules(listener("z", payloads=(Note, Ask)), listener("a.b", payloads=(Note,)), listener("a"))
NOTE, ASK = SHOP.codecs.of(Note).name, SHOP.codecs.of(Ask).name


def test_a_listener_accepts_its_declared_payloads():
    assert SHOP.blueprint.accepts("z", ASK)
    assert SHOP.blueprint.accepts("z", NOTE)
    assert not SHOP.blueprint.accepts("a", NOTE)
    assert not SHOP.blueprint.accepts("nobody", ASK)
    assert not SHOP.blueprint.accepts("z", "Ask")


def test_takers_come_in_the_order_of_the_organism():
    assert SHOP.blueprint.list_takers(NOTE) == ("z", "a.b")
    assert SHOP.blueprint.list_takers(ASK) == ("z", "a")
    assert SHOP.blueprint.list_takers("{urn:x}Other") == ()


def test_a_principal_may_address_every_listener_and_takes_nothing():
    principal = SHOP.blueprint.make_principal("console")
    assert (principal.name, principal.payloads) == ("console", ())
    assert principal.peers == {"z", "a.b", "a"}
    assert not SHOP.blueprint.accepts("console", ASK)


def test_one_who_may_address_some_reaches_no_other_and_none_who_is_not_there():
    assert SHOP.blueprint.make_principal("ada", ("a", "gone")).peers == {"a"}
    assert SHOP.blueprint.make_principal("ada", ()).peers == frozenset()
