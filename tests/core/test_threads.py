from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agentserver.core.messages import Delivery
from agentserver.core.threads import Held, ThreadTree


def delivery(number=1, thread="t", origin="root"):
    return Delivery(f"d{number}", "c", "r", thread, origin, "a", "b", "{n}x", b"", 1)


def tree_of(*edges):
    tree = ThreadTree.planted("root", "console")
    for parent, owner, thread in edges:
        tree = tree.open(parent, owner, thread)
    return tree


def test_a_planted_tree_has_only_the_principals_root():
    tree = ThreadTree.planted("root", "console")
    assert tree.get("root").owner == "console"
    assert list(tree.below("root")) == []
    assert tree.get("elsewhere") is None


def test_the_root_has_no_caller():
    tree = ThreadTree.planted("root", "console")
    with pytest.raises(LookupError):
        tree.caller(tree.get("root"))


def test_the_caller_of_a_thread_is_the_thread_that_opened_it():
    tree = tree_of(("root", "a", "t1"), ("t1", "b", "t2"))
    assert tree.caller(tree.get("t2")).id == "t1"


def test_opening_leaves_the_earlier_tree_as_it_was():
    before = tree_of(("root", "a", "t1"))
    after = before.open("t1", "b", "t2")
    assert before.get("t2") is None
    assert before.get("t1").children == ()
    assert after.get("t1").children == ("t2",)


def test_a_thread_at_rest_is_reused_for_its_owner_only():
    tree = tree_of(("root", "a.b", "t1"), ("root", "a", "t2"))
    assert tree.reusable("root", "a.b").id == "t1"
    assert tree.reusable("root", "a").id == "t2"
    assert tree.reusable("root", "b") is None
    assert tree.reusable("t1", "a.b") is None


def test_a_thread_with_work_below_it_is_not_reused():
    tree = tree_of(("root", "a", "t1"), ("t1", "b", "t2"), ("t2", "c", "t3"))
    busy = tree.put(tree.get("t3")._replace(inbox=(delivery(),)))
    assert busy.reusable("root", "a") is None
    held = tree.put(tree.get("t1")._replace(held=(Held("w", delivery()),)))
    assert held.reusable("root", "a") is None
    assert tree.reusable("root", "a").id == "t1"


def test_the_oldest_thread_at_rest_is_reused():
    tree = tree_of(("root", "a", "t1"), ("root", "a", "t2"), ("root", "a", "t3"))
    tree = tree.put(tree.get("t1")._replace(inbox=(delivery(),)))
    assert tree.reusable("root", "a").id == "t2"


def test_pruning_closes_everything_below_and_keeps_the_rest():
    tree = tree_of(("root", "a", "t1"), ("t1", "b", "t2"), ("t2", "c", "t3"), ("root", "d", "t4"))
    pruned, closed = tree.prune("t1")
    assert {node.id for node in closed} == {"t2", "t3"}
    assert set(pruned.nodes) == {"root", "t1", "t4"}
    assert pruned.get("t1").children == ()
    assert pruned.prune("t1") == (pruned, ())


class Trees(RuleBasedStateMachine):
    """Whatever is opened and pruned, parents and children agree and nothing below a closed thread lives."""

    def __init__(self):
        super().__init__()
        self.tree = ThreadTree.planted("0", "console")
        self.count = 0

    @rule(data=st.data(), owner=st.sampled_from(["a", "a.b", "b"]))
    def open(self, data, owner):
        self.count += 1
        parent = data.draw(st.sampled_from(sorted(self.tree.nodes)))
        self.tree = self.tree.open(parent, owner, str(self.count))

    @precondition(lambda self: len(self.tree.nodes) > 1)
    @rule(data=st.data())
    def prune(self, data):
        victim = data.draw(st.sampled_from(sorted(self.tree.nodes)))
        expected = {node.id for node in self.tree.below(victim)}
        self.tree, closed = self.tree.prune(victim)
        assert {node.id for node in closed} == expected
        assert victim in self.tree.nodes

    @invariant()
    def parents_and_children_agree(self):
        for node in self.tree.nodes.values():
            for child in node.children:
                assert self.tree.nodes[child].parent == node.id
            if node.parent is not None:
                assert node.id in self.tree.nodes[node.parent].children
        assert {node.id for node in self.tree.below("0")} == set(self.tree.nodes) - {"0"}


TestTrees = Trees.TestCase
