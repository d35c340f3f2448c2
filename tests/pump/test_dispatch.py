"""The delay of a repetition that an earlier server began, and deliveries whose listener is gone."""

import pytest

from agentserver.core.messages import HandlerFailure
from agentserver.pump.dispatch import Dispatcher
from agentserver.pump.editions import Callee, Editions
from agentserver.pump.schedule import Schedule, Ticket, backoff
from tests.core.paper import Ask, Paper, listener, rules
from tests.pump.desk import answer

YEARS = 10 * 365 * 86_400.0
A = listener("a", retries=3)
SHOP = rules(A)


@pytest.fixture
def delivery():
    run = Paper(SHOP, {})
    run.say(Ask("one"), "a")
    return run.waiting[0]


class Hall:
    def __init__(self, bound):
        self.ran, self.spawned, self.ended = [], [], []
        self.dispatcher = Dispatcher(
            Editions(SHOP, bound),
            Schedule({"a": 8}, self.ran.append),
            None,
            self.ended.append,
            self.spawned.append,
            {},
        )


@pytest.mark.parametrize(("later", "rest"), [(0.0, 0.2), (0.15, 0.05), (-YEARS, 0.2), (1.0, None)])
def test_a_repetition_keeps_the_rest_of_its_delay_across_a_restart(delivery, later, rest):
    hall = Hall({"a": Callee(A, answer)})
    hall.dispatcher.resume(Ticket("p", delivery._replace(attempt=2)), 1.8e9, 1.8e9 + later)
    assert backoff(2) == 0.2
    assert [task.args[1] for task in hall.spawned] == (
        [] if rest is None else [pytest.approx(rest, abs=1e-6)]
    )
    assert len(hall.ran) == (rest is None)


@pytest.mark.parametrize("way", ["dispatch", "dispatch_again"])
def test_a_delivery_whose_listener_is_gone_fails(delivery, way):
    hall = Hall({})
    getattr(hall.dispatcher, way)(Ticket("p", delivery))
    assert not hall.ran
    hall.spawned[0]()
    (finished,) = hall.ended
    assert isinstance(finished.result, HandlerFailure)
