from __future__ import annotations

import pytest

from agentserver.assembly import build
from agentserver.gateways.console.lines import takers_of
from tests.gateways.payloads import DESK


@pytest.fixture(scope="session")
def rules():
    return build(DESK).rules


@pytest.fixture(scope="session")
def takers(rules):
    return takers_of(rules)
