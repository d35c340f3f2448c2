"""A handler of another machine."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from pathlib import Path

from distant_words import Count, Done, Job

from agentserver import HandlerResponse, invocation
from agentserver.llm import PromptMessage, complete


class Tool:
    """What its process has."""


@asynccontextmanager
async def resources():
    yield Tool()


async def work(payload, metadata) -> HandlerResponse:
    act, about = payload.act, getattr(payload, "about", "")
    if act == "die":
        os._exit(3)
    if act == "sleep":
        await asyncio.sleep(float(about))
    if act == "ask":
        answer = await complete(model="m", messages=[PromptMessage("user", about)])
        return HandlerResponse.respond(Done(answer.content))
    if act == "tell":
        invocation().progress(f"at {about}")
    if act == "resource":
        return HandlerResponse.respond(Done(type(invocation().resource(Tool)).__name__))
    if act == "secret":
        try:
            return HandlerResponse.respond(Done(Path(about).read_text()))
        except OSError as error:
            return HandlerResponse.respond(Done(f"refused: {type(error).__name__}"))
    if act == "large":
        return HandlerResponse.respond(Done("x" * int(about)))
    if act == "env":
        return HandlerResponse.respond(Done(os.environ[about]))
    if act == "key":
        now = invocation()
        return HandlerResponse.respond(Done(f"{now.idempotency_key} {now.attempt}"))
    if act == "count":
        kept = invocation().storage.get(Count)
        number = 1 if kept is None else kept.number + 1
        invocation().storage.set(Count(number))
        return HandlerResponse.respond(Done(str(number)))
    return HandlerResponse.respond(Done(f"{act} {about} by {os.getppid()}"))


__all__ = ["Job", "resources", "work"]
