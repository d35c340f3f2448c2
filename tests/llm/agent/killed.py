"""An agent whose process is killed in a call of its model: run as a script with the directory of the project.

The first run ends in the second call of the model; the next one takes up what there is and prints the answer. Each call of
the model is a line of ``calls``, with how many messages the prompt had.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from agentserver.assembly import build
from agentserver.config import load
from agentserver.core.messages import Done
from agentserver.payload.codec import Codecs
from tests.llm.agent.conftest import calls, done_call


async def main(folder, loaded):
    again = (folder / "calls").exists()

    def model(prompt):
        with (folder / "calls").open("a") as file:
            file.write(f"{len(prompt.messages)}\n")
        if not any(message.role == "tool" for message in prompt.messages):
            return calls(("calc_add", '{"a": 1, "b": 1}'), ("web", '{"page": "x"}'))
        if not again:
            os.kill(os.getpid(), signal.SIGKILL)
        return done_call("well")

    backends = {name: replace(one, script=model) for name, one in loaded.models.backends.items()}
    spoken = replace(loaded, models=replace(loaded.models, backends=MappingProxyType(backends)))
    async with build(spoken, durable=True) as server:
        if not again:
            import desk_code

            handle = await server.open("ada")
            codec = Codecs([desk_code.Wish]).of(desk_code.Wish)
            await handle.send(codec.encode(desk_code.Wish("go")).encode(), "agent")
            await asyncio.sleep(60)
        (key,) = await server.left_over("ada")
        handle = await server.resume("ada", key)
        async for event in handle.events():
            sys.stdout.write(f"{event}\n")
            if isinstance(event, Done):
                break


if __name__ == "__main__":
    where = Path(sys.argv[1])
    asyncio.run(main(where, load(where / "organism.yaml", environ={})))
