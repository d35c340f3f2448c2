import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.gateways.principals import Rates
from agentserver.ports.principals import StoreAwayError
from tests.gateways.principals.people import ManualClock, caller


def test_a_full_bucket_gives_its_content_and_then_the_waiting_time():
    clock = ManualClock()
    rates, ada = Rates(clock), caller(rate="3/s")
    assert [rates.take(ada).seconds for _ in range(3)] == [0.0] * 3
    wait = rates.take(ada).seconds
    assert 0.3 < wait <= 1 / 3 + 1e-6
    clock.now += wait
    assert rates.take(ada).seconds == 0.0
    assert rates.take(ada).seconds > 0.0


def test_one_who_floods_takes_nothing_from_another():
    rates, eve, ada = Rates(ManualClock()), caller("eve", rate="2/s"), caller("ada", rate="2/s")
    assert [rates.take(eve).seconds > 0 for _ in range(5)] == [False, False, True, True, True]
    assert rates.take(ada).seconds == 0.0


@given(st.lists(st.floats(0, 5), max_size=60), st.integers(1, 8))
def test_no_period_lets_more_through_than_bucket_and_inflow(pauses, count):
    clock, passed = ManualClock(), []
    rates, ada = Rates(clock), caller(rate=f"{count}/s")
    for pause in pauses:
        clock.now += pause
        if rates.take(ada).seconds == 0.0:
            passed.append(clock.now)
    for first, start in enumerate(passed):
        for last in range(first, len(passed)):
            assert last - first + 1 <= count + (passed[last] - start) * count + 1e-6


@given(st.lists(st.floats(0, 5), max_size=60))
def test_a_client_that_waits_the_stated_time_is_let_through(pauses):
    clock = ManualClock()
    rates, ada = Rates(clock), caller(rate="2/s")
    for pause in pauses:
        clock.now += pause
        clock.now += rates.take(ada).seconds
    clock.now += rates.take(ada).seconds
    assert rates.take(ada).seconds <= 0.5 + 1e-6


def test_full_buckets_are_forgotten():
    clock = ManualClock()
    rates = Rates(clock)
    for number in range(100):
        rates.take(caller(f"p{number}"))
    assert len(rates) == 100
    clock.now += 3600
    rates.take(caller("ada"))
    assert len(rates) <= 1


class Sum:
    """A shared counter of servers, for those of one process."""

    def __init__(self, clock):
        self.clock, self.full, self.away = clock, {}, False

    def exchange(self, spent):
        if self.away:
            raise StoreAwayError("the database is away")
        for name, seconds in spent.items():
            self.full[name] = max(self.full.get(name, 0.0), self.clock.now) + seconds
        return {name: self.full[name] - self.clock.now for name in spent}


@pytest.mark.anyio
async def test_servers_together_stay_within_the_rate():
    clock = ManualClock()
    shared = Sum(clock)
    servers, ada = [Rates(clock, shared) for _ in range(3)], caller(rate="6/s")
    taken = 0
    for _ in range(100):  # 10 seconds in which each server is asked more than it may give
        for server in servers:
            taken += sum(server.take(ada).seconds == 0.0 for _ in range(2))
            await server.exchange(shared)
        clock.now += 0.1
    assert 6 + 60 - 1 <= taken <= 6 + 60 + 6, (
        "the bucket, what flows in, and a little until servers have exchanged"
    )


@pytest.mark.anyio
async def test_a_principal_of_one_server_has_its_whole_rate_there():
    clock = ManualClock()
    shared = Sum(clock)
    here, ada = Rates(clock, shared), caller(rate="6/s")
    assert [here.take(ada).seconds > 0 for _ in range(7)] == [False] * 6 + [True]
    await here.exchange(shared)
    assert here.take(ada).seconds > 0
    clock.now += 0.5
    assert [here.take(ada).seconds > 0 for _ in range(4)] == [False] * 3 + [True]


@pytest.mark.anyio
async def test_an_outage_of_the_database_is_logged_once(caplog):
    clock = ManualClock()
    shared = Sum(clock)
    here, ada = Rates(clock, shared), caller(rate="6/s")
    for away in (True, True, False, True):
        shared.away = away
        here.take(ada)
        await here.exchange(shared)
    assert len(caplog.messages) == 2


@pytest.mark.anyio
async def test_requests_that_could_not_be_added_up_are_added_later():
    clock = ManualClock()
    shared = Sum(clock)
    here, there, ada = Rates(clock, shared), Rates(clock, shared), caller(rate="2/m")
    shared.away = True
    assert [here.take(ada).seconds for _ in range(2)] == [0.0, 0.0]
    await here.exchange(shared)
    shared.away = False
    await here.exchange(shared)
    assert there.take(ada).seconds == 0.0
    await there.exchange(shared)
    assert there.take(ada).seconds > 0.0
