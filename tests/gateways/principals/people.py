"""Callers for tests."""

from agentserver.core.state.principals import Principal, Trust
from agentserver.gateways.principals import Caller, Rate, Role


def caller(name="ada", role=Role.USER, rate="10/s", may=("greeter",), most=20):
    return Caller(Principal(name, Trust.STRANGER, may), role, Rate.parse(rate), most)
