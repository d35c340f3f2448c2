"""Runs Python that a model wrote, in an isolated process, so that it can end only that process."""

from __future__ import annotations

import contextlib
import io

from words import Code, Output

from agentserver import HandlerMetadata, HandlerResponse

MOST = 10_000


async def run(payload: Code, metadata: HandlerMetadata) -> HandlerResponse:
    """Run the code and return its output. If it fails, the handler fails, and the caller gets ``internal``."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(payload.text, {})  # safe only because this process is isolated
    return HandlerResponse.respond(Output(output.getvalue()[:MOST]))
