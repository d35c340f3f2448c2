"""The changes of the steps, applied to any earlier state, give the conversation; they are as long as the change."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentserver.core.encoding.changes import _queue, _update_queue, encode_diff
from agentserver.core.encoding.snapshot import (
    Snapshot,
    UnreadableError,
    group_by_owner,
    make_memory_dumper,
    restore,
    take,
)
from agentserver.core.state import overlay
from agentserver.core.state.approvals import Approval
from agentserver.core.state.threads import HeldDelivery
from agentserver.core.state.todos import TodoBook
from tests.core.decide.test_decisions_laws import SHOP
from tests.core.encoding.test_snapshot import live_conversation
from tests.core.paper import Ask, Paper, listener, rules
from tests.core.test_sizes import FEW, MANY, pingpong
from tests.fuzzing import examples

DUMP = make_memory_dumper(SHOP.guards)


def stored_values(owned):
    return {(owner, name): value for owner, values in owned.items() for name, value in values.items()}


@pytest.mark.parametrize("few", [1, overlay.FEW])
@settings(max_examples=examples(40))
@given(st.integers(0, 2**32), st.integers(0, 100))
def test_a_state_and_the_changes_since_are_the_conversation(few, seed, start):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(overlay, "FEW", few)
        outcomes = live_conversation(seed).outcomes[start:]
    if not outcomes:
        return
    base = take(outcomes[0].since, SHOP.guards)
    owned, changes = group_by_owner(base.values), []
    for outcome in outcomes:
        changed = encode_diff(outcome.since, outcome.conversation, DUMP)
        changes.append(changed.state)
        owned.update(changed.values)
        for owner, entries in changed.entries.items():
            kept = {**owned.get(owner, {}), **entries}
            owned[owner] = {number: entry for number, entry in kept.items() if entry is not None}
        whole = take(outcome.conversation, SHOP.guards)
        assert stored_values(owned) == whole.values
        back = restore(Snapshot(base.state, whole.deliveries, whole.values, changes), SHOP.guards)
        assert back == outcome.conversation
        assert take(back, SHOP.guards) == whole


def test_changes_to_another_version_are_refused():
    paper = Paper(rules(listener("a")), {})
    paper.say(Ask("x"), "a")
    paper.say(Ask("y"), "a")
    first, second = paper.outcomes
    changes = [
        encode_diff(one.since, one.conversation, make_memory_dumper(())).state for one in (first, second)
    ]
    base, whole = take(first.since), take(second.conversation)
    assert restore(Snapshot(base.state, whole.deliveries, whole.values, changes)) == second.conversation
    for wrong in (changes[1:], changes[::-1], [changes[0], changes[0]], [b"[]"], [b""]):
        with pytest.raises(UnreadableError):
            restore(Snapshot(base.state, whole.deliveries, whole.values, wrong))


@pytest.mark.parametrize("what", ["threads", "requests"])
def test_a_step_of_a_large_conversation_stores_as_little(what):
    def one(number):
        paper = pingpong(**{what: number})
        for _ in range(6):
            paper.step()
        return max(
            len(encode_diff(each.since, each.conversation, make_memory_dumper(())).state)
            for each in paper.outcomes[1:]
        )

    assert one(MANY) <= one(FEW) + len(str(MANY))


QUEUES = {
    "inbox": lambda delivery: delivery,
    "held_deliveries": lambda delivery: HeldDelivery("watcher", delivery),
    "approvals": lambda delivery: Approval(f"of {delivery.id}", delivery, (), 0.0, "digest"),
}
TURNS = {
    "one comes": lambda queue, one: (*queue, one),
    "the first goes": lambda queue, one: queue[1:],
    "the first goes and one comes": lambda queue, one: (*queue[1:], one),
    "two in the middle go and one comes": lambda queue, one: (*queue[:7], *queue[8:20], *queue[21:], one),
    "all go": lambda queue, one: (),
}


def queue_on_thread(name, turn):
    """A conversation in which much waits on a thread, before and after a change to that."""
    paper = Paper(rules(listener("a")), {"a": lambda call: None})
    paper.say(Ask("x"), "a")
    before = paper.conversation
    thread = next(node for node in before.tree.nodes.values() if node.inbox)
    one = thread.inbox[0]
    queue = tuple(QUEUES[name](one._replace(id=f"d{number}")) for number in range(MANY))

    def with_versions(version, queue):
        nodes = {**before.tree.nodes, thread.id: thread._replace(**{"inbox": (), name: queue})}
        return before._replace(version=before.version + version, tree=before.tree._replace(nodes=nodes))

    return with_versions(0, queue), with_versions(1, turn(queue, QUEUES[name](one)))


@pytest.mark.parametrize("turn", TURNS.values(), ids=TURNS)
@pytest.mark.parametrize("name", QUEUES)
def test_of_a_long_queue_only_additions_and_removals_are_stored(name, turn):
    before, after = queue_on_thread(name, turn)
    changed = encode_diff(before, after, make_memory_dumper(())).state
    assert len(changed) < 320
    base, whole = take(before), take(after)
    assert restore(Snapshot(base.state, whole.deliveries, whole.values, [changed])) == after


@given(st.lists(st.integers(0, 4)), st.lists(st.integers(0, 4)))
def test_any_queue_becomes_any_other(before, now):
    before, now = tuple(before), tuple(now)
    assert _update_queue(before, *_queue(before, now, tuple)) == now


def test_a_thread_whose_todos_went_and_came_back_is_at_the_end():
    paper = live_conversation(917504)
    watched = [one for one in paper.outcomes if len(one.since.todos.watchers) > 1]
    assert watched
    before = watched[0].since
    first, *others = before.todos.watchers
    again = {key: before.todos.watchers[key] for key in (*others, first)}
    again[first] = (*again[first], again[first][0])
    after = before._replace(todos=TodoBook(again), version=before.version + 1)
    base, whole = take(before), take(after)
    changes = [encode_diff(before, after, DUMP).state]
    back = restore(Snapshot(base.state, whole.deliveries, whole.values, changes))
    assert list(back.todos.watchers) == [*others, first]
    assert back == after
