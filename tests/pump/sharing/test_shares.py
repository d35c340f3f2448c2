"""The shares of the pump: what it has taken up, whatever the engine knows by then."""

from __future__ import annotations

import asyncio

import pytest

from agentserver.ports import FencedError, Share
from agentserver.pump.sharing.shares import Shares

pytestmark = pytest.mark.anyio

SHARE = Share(3, 7)


class Knowing:
    """An engine that knows where each conversation is."""

    def __init__(self):
        self.share = SHARE

    def share_of(self, conversation):
        return self.share


def taken_up():
    shares = Shares(Knowing())
    shares.held = frozenset({SHARE})
    assert shares["c"] == SHARE
    return shares, shares._engine


async def test_one_whose_share_the_engine_misses_for_a_moment_stays():
    shares, engine = taken_up()
    engine.share = None  # the pump is never told of a share that is back by the time it asks
    assert await shares.stays("c", asyncio.sleep(0))
    engine.share = SHARE
    assert await shares.stays("c", asyncio.sleep(0))


async def test_one_that_is_let_go_meanwhile_does_not_stay_though_it_is_taken_up_again():
    shares, engine = taken_up()

    async def let_go_and_taken_up():
        del shares["c"]
        engine.share = Share(3, 9)
        shares.held = frozenset({engine.share})
        assert shares["c"] == engine.share

    assert not await shares.stays("c", let_go_and_taken_up())
    del shares["c"]
    assert not await shares.stays("c", asyncio.sleep(0))


async def test_one_in_a_share_that_is_not_taken_up_is_refused():
    shares, engine = taken_up()
    engine.share = Share(4, 8)
    with pytest.raises(FencedError):
        shares["d"]
    assert (shares.has("d"), shares.has("c")) == (False, True)
