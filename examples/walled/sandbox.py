"""Runs Python that a model wrote. It stands behind a wall, so that the worst it can do is to end its own process."""

from __future__ import annotations

import contextlib
import io

from words import Code, Printed

from agentserver import HandlerMetadata, HandlerResponse

MOST = 10_000


async def run(payload: Code, metadata: HandlerMetadata) -> HandlerResponse:
    """The output of the code. A failure of it is a failure of this handler: its caller hears ``internal``."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(payload.text, {})  # the wall is what makes this fit to be done
    return HandlerResponse.respond(Printed(output.getvalue()[:MOST]))
