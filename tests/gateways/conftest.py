from __future__ import annotations

import pytest

from agentserver.assembly import build
from agentserver.gateways.console.lines import group_takers
from tests.gateways.payloads import DESK


@pytest.fixture(scope="session")
def rules():
    return build(DESK).rules


@pytest.fixture(scope="session")
def takers(rules):
    return group_takers(rules)
