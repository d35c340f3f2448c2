"""The pytest plugin with the ``organism`` fixture.

Heavy imports wait until a test uses it, because pytest loads this module at every start.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from agentserver.config import Organism
    from agentserver.testing.kit import Testbed


class Organisms(Protocol):
    """Type of the fixture: ``agentserver.testing.organism`` with files relative to pytest's root directory."""

    def __call__(
        self, source: str | Path | Organism = "config/organism.yaml", **options: Any
    ) -> AbstractAsyncContextManager[Testbed]:
        """Run an organism in memory; ``options`` are those of ``agentserver.testing.organism``."""


@pytest.fixture
def organism(pytestconfig: pytest.Config) -> Organisms:
    """Run organisms in memory.

    ``async with organism("config/organism.yaml") as o: await o.ask(payload)``. Works with any plugin that runs
    coroutines on asyncio, such as anyio's (``pytest.mark.anyio``).
    """

    def enter(
        source: str | Path | Organism = "config/organism.yaml", **options: Any
    ) -> AbstractAsyncContextManager[Testbed]:
        from agentserver.testing.kit import organism as run

        return run(pytestconfig.rootpath / source if isinstance(source, str | Path) else source, **options)

    return enter
