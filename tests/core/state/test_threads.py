from __future__ import annotations

import gc
import weakref

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agentserver.core.messages import Delivery
from agentserver.core.state import siblings
from agentserver.core.state.threads import HeldDelivery, ThreadTree, TreeChange


def delivery(number=1, thread="t", origin="root"):
    return Delivery(f"d{number}", "c", "r", thread, origin, "a", "b", "{n}x", b"", 1)


def grow_change(*edges):
    change = TreeChange(ThreadTree.plant("root", "console"))
    for parent, owner, thread in edges:
        change.open(parent, owner, thread)
    return change


def tree_of(*edges):
    return grow_change(*edges).build_result()


def busy(thread):
    return thread._replace(inbox=(delivery(),))


def test_a_planted_tree_has_only_the_principals_root():
    tree = ThreadTree.plant("root", "console")
    assert tree.get("root").owner == "console"
    assert list(tree.iter_descendants("root")) == []
    assert tree.get("elsewhere") is None


def test_the_root_has_no_caller():
    tree = ThreadTree.plant("root", "console")
    with pytest.raises(LookupError):
        tree.caller(tree.get("root"))


def test_the_caller_of_a_thread_is_the_thread_that_opened_it():
    tree = tree_of(("root", "a", "t1"), ("t1", "b", "t2"))
    assert tree.caller(tree.get("t2")).id == "t1"


def test_a_change_leaves_the_earlier_tree_as_it_was():
    before = tree_of(("root", "a", "t1"), ("t1", "b", "t2"))
    change = TreeChange(before)
    change.open("t1", "c", "t3")
    change.put(busy(change.tree.get("t2")))
    change.prune("t1")
    change.shut("t1")
    assert set(change.build_result().nodes) == {"root"}
    assert set(before.nodes) == {"root", "t1", "t2"}
    assert before.get("t1").children == ("t2",)
    assert before.get("t2").quiet


def test_threads_are_numbered_in_the_order_of_their_opening():
    change = TreeChange(tree_of(("root", "a", "t1"), ("t1", "b", "t2")))
    change.prune("t1")
    change.open("root", "a", "t3")
    assert [node.ordinal for node in change.build_result().nodes.values()] == [0, 1, 3]


def test_an_idle_thread_is_given_to_its_owner_only():
    change = grow_change(("root", "a.b", "t1"), ("root", "a", "t2"))
    assert change.take_resting("root", "a.b").id == "t1"
    assert change.take_resting("root", "a").id == "t2"
    assert change.take_resting("root", "b") is None
    assert change.take_resting("t1", "a.b") is None


def test_a_thread_with_work_on_it_or_below_it_is_not_idle():
    tree = tree_of(("root", "a", "t1"), ("t1", "b", "t2"), ("t2", "c", "t3"))
    assert TreeChange(tree).take_resting("root", "a").id == "t1"
    for thread in ("t1", "t3"):
        for working in (
            busy(tree.get(thread)),
            tree.get(thread)._replace(held_deliveries=(HeldDelivery("w", delivery()),)),
        ):
            change = TreeChange(tree)
            change.put(working)
            assert change.take_resting("root", "a") is None


def test_the_oldest_idle_threads_are_given_first_and_each_once():
    change = grow_change(("root", "a", "t1"), ("root", "a", "t2"), ("root", "a", "t3"))
    change.put(busy(change.tree.get("t1")))
    assert [change.take_resting("root", "a").id for _ in range(2)] == ["t2", "t3"]
    assert change.take_resting("root", "a") is None


def test_pruning_closes_everything_below_and_keeps_the_rest():
    change = grow_change(("root", "a", "t1"), ("t1", "b", "t2"), ("t2", "c", "t3"), ("root", "d", "t4"))
    assert {node.id for node in change.prune("t1")} == {"t2", "t3"}
    assert set(change.tree.nodes) == {"root", "t1", "t4"}
    assert change.tree.get("t1").children == ()
    assert change.prune("t1") == ()


def test_shutting_closes_a_thread_with_everything_below_it():
    change = grow_change(("root", "a", "t1"), ("t1", "b", "t2"), ("root", "d", "t4"))
    assert [node.id for node in change.shut("t1")] == ["t2", "t1"]
    assert change.tree.get("root").children == ("t4",)
    assert set(change.tree.nodes) == {"root", "t4"}
    with pytest.raises(LookupError):
        change.shut("root")


class CountedThreads(dict):
    """Counts how often a thread is looked up."""

    looks = 0

    def __getitem__(self, key):
        self.looks += 1
        return super().__getitem__(key)


@pytest.mark.parametrize("resting", [0, 500])
def test_a_thousand_calls_in_one_change_look_at_each_thread_a_bounded_number_of_times(resting):
    change = grow_change(*(("root", "a", f"old{number}") for number in range(resting)))
    change.nodes = CountedThreads(change.nodes)
    for number in range(1000):
        thread = change.take_resting("root", "a") or change.open("root", "a", f"new{number}")
        change.put(busy(thread))
    assert len(change.tree.nodes) == 1 + 1000
    assert change.nodes.looks < 10 * 1000


def idle_children(thread):
    """List the idle children by kind, as the index has them."""
    return {kind: places for kind, places in thread.children.resting.items() if places}


class Trees(RuleBasedStateMachine):
    """Whatever is opened and pruned, parents and children agree and nothing below a closed thread lives."""

    def __init__(self):
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(siblings, "FEW", 2)
        self.tree = ThreadTree.plant("0", "console")
        self.count = 0

    @rule(data=st.data(), owner=st.sampled_from(["a", "a.b", "b"]))
    def open(self, data, owner):
        self.count += 1
        parent = data.draw(st.sampled_from(sorted(self.tree.nodes)))
        change = TreeChange(self.tree)
        change.open(parent, owner, str(self.count))
        self.tree = change.build_result()

    @precondition(lambda self: len(self.tree.nodes) > 1)
    @rule(data=st.data())
    def prune(self, data):
        victim = data.draw(st.sampled_from(sorted(self.tree.nodes)))
        expected = {node.id for node in self.tree.iter_descendants(victim)}
        change = TreeChange(self.tree)
        assert {node.id for node in change.prune(victim)} == expected
        self.tree = change.build_result()
        assert victim in self.tree.nodes

    @precondition(lambda self: len(self.tree.nodes) > 1)
    @rule(data=st.data())
    def shut(self, data):
        victim = data.draw(st.sampled_from(sorted(set(self.tree.nodes) - {"0"})))
        expected = {node.id for node in self.tree.iter_descendants(victim)} | {victim}
        change = TreeChange(self.tree)
        assert {node.id for node in change.shut(victim)} == expected
        self.tree = change.build_result()

    def teardown(self):
        self.patch.undo()

    @precondition(lambda self: len(self.tree.nodes) > 1)
    @rule(data=st.data(), allowed=st.sampled_from([None, frozenset("a"), frozenset("b")]))
    def work(self, data, allowed):
        change = TreeChange(self.tree)
        for thread in data.draw(st.lists(st.sampled_from(sorted(set(self.tree.nodes) - {"0"})))):
            node = change.tree.nodes[thread]
            change.put((node._replace(inbox=()) if node.inbox else busy(node))._replace(allowed=allowed))
        self.tree = change.build_result()

    @precondition(lambda self: len(self.tree.nodes) > 1)
    @rule(data=st.data())
    def call(self, data):
        parent = self.tree.nodes[data.draw(st.sampled_from(sorted(set(self.tree.nodes) - {"0"})))].parent
        resting = [
            child
            for child in self.tree.nodes[parent].children
            if self.tree.nodes[child].owner == "a"
            and self.tree.nodes[child].allowed is None
            and all(node.quiet for node in (self.tree.nodes[child], *self.tree.iter_descendants(child)))
        ]
        change = TreeChange(self.tree)
        for expected in (*resting, None):
            given = change.take_resting(parent, "a")
            assert (given and given.id) == expected
            if given:
                change.put(busy(given))
        self.tree = change.build_result()

    @invariant()
    def children_at_rest_are_known(self):
        read = ThreadTree.build("0", self.tree.nodes, self.tree.opened)
        assert read == self.tree
        for node in self.tree.nodes.values():
            if len(node.children) > siblings.FEW:
                assert idle_children(node) == idle_children(read.nodes[node.id])

    @invariant()
    def parents_and_children_agree(self):
        for node in self.tree.nodes.values():
            for child in node.children:
                assert self.tree.nodes[child].parent == node.id
            if node.parent is not None:
                assert node.id in self.tree.nodes[node.parent].children
        assert {node.id for node in self.tree.iter_descendants("0")} == set(self.tree.nodes) - {"0"}


TestTrees = Trees.TestCase


def test_a_change_that_looked_for_an_idle_child_is_freed_without_the_collector():
    change = TreeChange(tree_of(("root", "a", "t1"), ("root", "a", "t2")))
    assert change.take_resting("root", "a").id == "t1"
    freed = weakref.ref(change)
    gc.disable()
    try:
        del change
        assert freed() is None
    finally:
        gc.enable()
