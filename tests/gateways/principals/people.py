"""Callers and clocks for tests."""

import time

from agentserver.core.state.principals import Principal, Trust
from agentserver.gateways.principals import Caller, Rate, Role


def caller(name="ada", role=Role.USER, rate="10/s", may=("greeter",), most=20):
    return Caller(Principal(name, Trust.STRANGER, may), role, Rate.parse(rate), most)


class ManualClock:
    """A clock that tests move."""

    now = 1000.0

    def __call__(self):
        return self.now


class MachineClock:
    """The machine's clock, and seconds by which a test moves it."""

    moved = 0.0

    def __call__(self):
        return time.time() + self.moved
