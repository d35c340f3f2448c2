from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentserver.core.state.siblings import FEW, Siblings
from agentserver.core.state.threads import ThreadTree, TreeChange


@given(st.lists(st.tuples(st.integers(0, 30), st.text("ab", min_size=1))))
def test_siblings_are_immutable(script):
    made = [((), Siblings())]
    for number, thread in script:
        ids, siblings = made[number % len(made)]
        made.append(((*ids, thread), siblings.followed_by(thread)))
    for ids, siblings in made:
        assert siblings == ids
        assert (len(siblings), list(siblings), list(reversed(siblings))) == (
            len(ids),
            list(ids),
            list(ids)[::-1],
        )
        assert [siblings[n] for n in range(len(ids))] == list(ids)
        assert hash(siblings) == hash(Siblings(ids))
        assert siblings[:1] == list(ids[:1])


def test_they_are_no_other_kind_of_sequence():
    assert Siblings(["a"]) != ["a"]
    assert repr(Siblings(["a"])) == "Siblings(['a'])"


def test_opening_one_more_of_many_children_copies_none_of_them():
    tree = ThreadTree.plant("root", "console")
    stores = set()
    for number in range(500):
        change = TreeChange(tree)
        for part in "ab":
            change.open("root", "a", f"{number}{part}")
        tree = change.build_result()
        children = tree.nodes["root"].children
        if len(children) > FEW:
            stores.add(id(children.ids))
    assert len(tree.nodes["root"].children) == 1000
    assert len(stores) == 1
