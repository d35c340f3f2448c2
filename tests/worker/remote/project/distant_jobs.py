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
    """The environment of its process."""


@asynccontextmanager
async def resources():
    if os.environ.get("REGION") == "nowhere":
        raise RuntimeError("there is no GPU here")
    yield Tool()


async def die(about):
    os._exit(3)


async def sleep(about):
    await asyncio.sleep(float(about))
    return f"slept {about} by {os.getppid()}"


async def ask(about):
    return (await complete(model="m", messages=[PromptMessage("user", about)])).content


async def tell(about):
    invocation().progress(f"at {about}")
    return f"told {about}"


async def resource(about):
    return type(invocation().resource(Tool)).__name__


def opened(about):
    return Path(about).read_text()


async def secret(about):
    try:
        return await asyncio.to_thread(opened, about)
    except OSError as error:
        return f"refused: {type(error).__name__}"


async def large(about):
    return "x" * int(about)


async def env(about):
    return os.environ[about]


async def key(about):
    now = invocation()
    return f"{now.idempotency_key} {now.attempt}"


async def count(about):
    kept = invocation().storage.get(Count)
    number = 1 if kept is None else kept.number + 1
    invocation().storage.set(Count(number))
    return str(number)


async def hello(about):
    return f"hello {about} by {os.getppid()}"


ACTS = {act.__name__: act for act in (die, sleep, ask, tell, resource, secret, large, env, key, count, hello)}


async def work(payload, metadata) -> HandlerResponse:
    return HandlerResponse.respond(Done(await ACTS[payload.act](getattr(payload, "about", ""))))


__all__ = ["Job", "resources", "work"]
