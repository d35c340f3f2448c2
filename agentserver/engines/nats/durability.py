"""The look at a broker: does it wait for its disk before it says that it has something?

Owns what its monitoring says about that. An ordinary account cannot ask for it: it is read from the monitoring port of
each node, and what cannot be read counts as not waiting. Refuses to know what follows from it.
"""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

SECONDS = 3.0
MOST = 1 << 20


async def relaxed(monitoring: Sequence[str]) -> str | None:
    """Say, in words, why acknowledged entries may be lost with the power; None when every node waits for its disk.

    Args:
        monitoring: the URL of each node's monitoring.
    """
    if not monitoring:
        return "engine.nats.monitoring names no node, so that nothing is known of sync_interval"
    found = await asyncio.gather(*(asyncio.to_thread(_node, url) for url in monitoring))
    return next((why for why in found if why is not None), None)


def _node(url: str) -> str | None:
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}/varz", timeout=SECONDS) as answer:  # noqa: S310
            said = json.loads(answer.read(MOST))
        always = said["jetstream"]["config"].get("sync_always", False)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        return f"{url}: the broker's monitoring cannot be read: {error}"
    return None if always is True else f"{url}: the broker's sync_interval is not always"
