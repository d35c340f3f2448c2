from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from agentserver.provenance import Ledger
from agentserver.provenance.copies import change


@dataclass(frozen=True, slots=True)
class State:
    step: int
    names: tuple[str, ...] = ()
    seen: dict[str, int] = field(default_factory=dict, compare=False)


def test_a_changed_copy_is_that_of_the_standard_library():
    before = State(1, ("a",), {"a": 1})
    after = change(before, step=2)
    assert after == replace(before, step=2)
    assert (before.step, after.seen is before.seen) == (1, True)
    assert change(Ledger().ask("mail it"), overflow=True) == replace(Ledger().ask("mail it"), overflow=True)


def test_an_unknown_field_is_no_change():
    with pytest.raises(TypeError, match="no such fields: steps"):
        change(State(1), steps=2)
