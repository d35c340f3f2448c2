"""A mapping under changes is what a dict would be, its earlier versions stay as they were, and a change is cheap."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.core.state.overlay import FEW, copy_changeable, differences

KEYS = st.integers(0, 3 * FEW)
CHANGES = st.lists(st.tuples(st.sampled_from(["put", "put", "remove", "version"]), KEYS), max_size=400)


def look(mapping):
    return list(mapping.items()), len(mapping), [key in mapping for key in range(3 * FEW + 1)]


@given(st.integers(0, 3 * FEW), CHANGES)
def test_an_overlay_behaves_like_a_dict_and_no_version_changes_afterwards(length, changes):
    model = dict.fromkeys(range(length), "old")
    now = copy_changeable(model.copy())
    versions = []
    for number, (what, key) in enumerate(changes):
        if what == "version":
            versions.append((now, look(model)))
            now = copy_changeable(now)
        elif what == "put":
            now[key] = model[key] = f"{number}"
        elif key in model:
            del now[key], model[key]
        else:
            with pytest.raises(KeyError):
                del now[key]
        assert now == model
        assert now.get(key, "none") == model.get(key, "none")
    for version, then in [*versions, (now, look(model))]:
        assert look(version) == then


@given(st.integers(0, 3 * FEW), CHANGES)
def test_the_differences_from_any_earlier_version_are_found(length, changes):
    now, versions = copy_changeable(dict.fromkeys(range(length), "old")), []
    for number, (what, key) in enumerate(changes):
        if what == "version":
            versions.append(now)
            now = copy_changeable(now)
        elif what == "put":
            now[key] = f"{number}"
        else:
            now.pop(key, None)
    for before in versions[-6:]:
        changed, gone = differences(before, now)
        assert sorted(changed) == sorted(key for key in now if before.get(key) is not now[key])
        assert [key for key in now if key in set(changed) - before.keys()] == [
            key for key in changed if key not in before
        ]
        assert sorted(gone) == sorted(key for key in before if key not in now)


def test_a_few_entries_are_a_dict():
    assert type(copy_changeable({1: 2})) is dict


def test_a_thousand_versions_of_a_large_one_copy_it_a_few_times():
    now, shared = copy_changeable(dict.fromkeys(range(1000), "old")), []
    for number in range(1000):
        now = copy_changeable(now)
        now[number] = "new"
        shared.append(now._under)
    assert len({id(each) for each in shared}) <= 1000 // FEW + 1
    assert max(len(copy_changeable(now)._over) for _ in range(1)) <= FEW + 1


def test_one_that_has_become_small_is_a_dict_again():
    now = copy_changeable(dict.fromkeys(range(FEW + 1), "old"))
    for number in range(FEW):
        del now[number]
    assert type(copy_changeable(now)) is dict
    assert copy_changeable(now) == {FEW: "old"}


def test_values_are_looked_up_in_both_layers_and_only_as_far_as_they_are_asked_for():
    large = copy_changeable({number: f"v{number}" for number in range(FEW + 1)})
    large[3] = "changed"
    large[1000] = "new"
    keys = [3, 1000, 5, 0]
    assert list(large.iter_values(keys)) == [large[key] for key in keys]
    assert next(large.iter_values([5, "not there"])) == "v5"
