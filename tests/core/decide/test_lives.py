"""The tables of lives: every stage with every move. ``Paper`` holds every step of the tests here to them as well."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from agentserver.core.decide import lives
from agentserver.core.decide.lives import (
    DELIVERY,
    THREAD,
    DeliveryMove,
    DeliveryStage,
    ImpossibleError,
    ThreadMove,
    ThreadStage,
)
from agentserver.core.messages import Delivery
from agentserver.core.state.threads import DelayedDelivery, HeldDelivery, Thread

ROOT = Path(__file__).parents[3]
DELIVERED = Delivery("d", "c", "r", "t", "t", "a", "b", "{u}x", b"", 1)
EMPTY = Thread("t", "a", "root", 1)
STANDS = {
    ThreadStage.NEW: [None],
    ThreadStage.RESTING: [EMPTY],
    ThreadStage.WAITING: [
        EMPTY._replace(held_deliveries=(HeldDelivery("w", DELIVERED),)),
        EMPTY._replace(approvals=(DELIVERED,)),
        EMPTY._replace(delayed=(DelayedDelivery(1.0, DELIVERED),)),
    ],
    ThreadStage.WORKING: [
        EMPTY._replace(inbox=(DELIVERED,)),
        EMPTY._replace(inbox=(DELIVERED,), approvals=(DELIVERED,)),
    ],
}
WAITING = set(DeliveryStage) & {"asked", "held", "delayed", "queued", "running"}


@pytest.mark.parametrize(("before", "move"), list(product(DeliveryStage, DeliveryMove)), ids=str)
def test_a_delivery_moves_by_its_table_and_in_no_other_way(before, move):
    after = DELIVERY[before].get(move)
    if after is None:
        with pytest.raises(ImpossibleError, match=f"{move}: a delivery that is {before}"):
            lives.passage(before, move)
        return
    passage = lives.passage(before, move)
    assert passage.after is after
    assert passage.waiting == (after in WAITING) - (before in WAITING)
    assert passage.held == (after is DeliveryStage.HELD) - (before is DeliveryStage.HELD)
    assert passage.approvals == (after is DeliveryStage.ASKED) - (before is DeliveryStage.ASKED)
    assert passage.delayed == (after is DeliveryStage.DELAYED) - (before is DeliveryStage.DELAYED)


@pytest.mark.parametrize(
    ("before", "move", "after"), list(product(ThreadStage, ThreadMove, ThreadStage)), ids=str
)
def test_a_thread_moves_by_its_table_and_in_no_other_way(before, move, after):
    if (
        before is ThreadStage.CLOSED or after is ThreadStage.NEW
    ):  # no thread is in the tree that could move so
        assert after not in THREAD[before].get(move, ())
        return
    ends = [None] if after is ThreadStage.CLOSED else STANDS[after]
    for was, now in product(STANDS[before], ends):
        if after in THREAD[before].get(move, ()):
            lives.step(was, move, now)
        else:
            with pytest.raises(
                ImpossibleError, match=f"{move}: a thread that is {before} cannot become {after}"
            ):
                lives.step(was, move, now)


def test_the_state_of_a_thread_follows_from_its_content():
    for stage, threads in STANDS.items():
        assert {lives.find_stage(thread) for thread in threads if thread is not None} <= {stage}


def as_list(ends):
    return [ends] if isinstance(ends, str) else ends


@pytest.mark.parametrize(
    ("table", "stages"), [(DELIVERY, DeliveryStage), (THREAD, ThreadStage)], ids=["delivery", "thread"]
)
def test_every_state_has_a_row_is_reached_and_has_a_way_to_an_end(table, stages):
    assert set(table) == set(stages)
    nexts = {
        stage: {after for ends in row.values() for after in as_list(ends)} for stage, row in table.items()
    }
    reached = {stages("new")}
    for _ in stages:
        reached |= {after for stage in reached for after in nexts[stage]}
    assert reached == set(stages)
    ends = {stages(name) for name in ("done", "dead", "dropped", "closed") if name in set(stages)}
    for stage in stages:
        found = {stage}
        for _ in stages:
            found |= {after for each in found for after in nexts[each]}
        assert found & ends


def test_every_move_is_somewhere_in_its_table():
    assert {move for row in DELIVERY.values() for move in row} == set(DeliveryMove)
    assert {move for row in THREAD.values() for move in row} == set(ThreadMove)


def test_every_open_thread_may_be_queued_on_and_closed_and_a_working_one_taken_from():
    for stage in (ThreadStage.RESTING, ThreadStage.WAITING, ThreadStage.WORKING):
        assert THREAD[stage][ThreadMove.QUEUE] == {ThreadStage.WORKING}
        assert THREAD[stage][ThreadMove.CLOSE] == {ThreadStage.CLOSED}
    assert len(THREAD[ThreadStage.WORKING][ThreadMove.TAKE]) == 3
    assert THREAD[ThreadStage.NEW][ThreadMove.OPEN] == THREAD[ThreadStage.RESTING][ThreadMove.CALL]
