"""Values of an organism, built from the keys of an entry."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from pydantic import Field

from agentserver.config.keys.fields import Strict, build_value


@dataclass(frozen=True, slots=True)
class Door:
    name: str
    ports: tuple[int, ...]
    host: str = "here"
    address: str | None = "none"


class DoorEntry(Strict):
    name: str
    ports: list[int] = Field(default_factory=list)
    host: str | None = None
    unread: int = 1


def test_a_value_has_the_keys_of_its_fields_and_its_own_defaults_for_those_without_a_value():
    entry = DoorEntry(name="front", ports=[1, 2])
    assert build_value(Door, entry) == Door("front", (1, 2))
    assert build_value(Door, entry, address=None) == Door("front", (1, 2), address=None)


def test_a_field_that_no_key_and_no_default_gives_is_an_error():
    class NamelessEntry(Strict):
        ports: list[int]

    assert build_value(Door, NamelessEntry(ports=[1]), name="back") == Door("back", (1,))
    with pytest.raises(TypeError):
        build_value(Door, NamelessEntry(ports=[1]))
