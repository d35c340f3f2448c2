"""Functions and files that one request and its reply pass, and how often a decision leaves its module.

Printed by figures.py as JSON. Both are traced, not read from names: what counts is the file in which the code of a
function lies, so that renaming a function or a module changes nothing.

A request and its reply: a server from YAML with one listener, on the memory engine; one ``ask`` to warm up, then one.
Counted are the functions of the package that are called, their files, and the calls whose function lies in another file
than the one called before.

A decision: the general step of ``conclude_in_pieces``, on the answer of the same listener. Counted are the calls from
functions that lie in its file to functions of the package that lie in another one; resuming a generator is no call.

    python .ci/passage.py
"""

from __future__ import annotations

import json
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType  # noqa: TC003 - read by the dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio

import agentserver
from agentserver.assembly import build
from agentserver.config import load
from agentserver.core.decide import decisions
from agentserver.core.drafts.replies import normalise
from agentserver.core.messages import Drafts, FinishedInvocation, HandlerReturn, Moment, OutsideMessage
from agentserver.core.pieces import run_pieces
from agentserver.core.state.conversation import Conversation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentserver.config import Organism

    Say: TypeAlias = Any

PACKAGE = str(Path(agentserver.__file__).parent)
YAML = """\
name: passage
listeners:
  - {name: echo, description: Says it again., payload_class: echoing.Say, handler: echoing.echo}
"""
ECHO = '''
from dataclasses import dataclass
from agentserver import HandlerResponse, xmlify

@xmlify
@dataclass(frozen=True)
class Say:
    """Something to say."""

    text: str

async def echo(payload: Say, metadata: object) -> HandlerResponse:
    return HandlerResponse.respond(payload)
'''


@dataclass
class Calls:
    """Calls of functions of the package inside ``watch``: each function, and the file of its caller.

    A function that resumes after a pause has no caller.
    """

    made: list[tuple[CodeType, str]] = field(default_factory=list)
    frames: set[FrameType] = field(default_factory=set)

    def _event(self, frame: FrameType, event: str, _arg: object) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(PACKAGE):
            return
        above = "" if frame.f_back is None or frame in self.frames else frame.f_back.f_code.co_filename
        self.frames.add(frame)
        self.made.append((code, above))

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Watch this thread."""
        sys.setprofile(self._event)
        try:
            yield
        finally:
            sys.setprofile(None)


async def count_passage(organism: Organism, say: Say) -> dict[str, int]:
    """The functions, files and changes of file of one request and its reply."""
    calls = Calls()
    async with build(organism) as server:
        handle = await server.open("figures")
        asked = server.rules.codecs.of(type(say)).encode(say).encode()
        await handle.ask(asked, "echo")
        with calls.watch():
            await handle.ask(asked, "echo")
    files = [code.co_filename for code, _ in calls.made]
    return {
        "functions": len({code for code, _ in calls.made}),
        "files": len(set(files)),
        "changes": sum(one != other for one, other in pairwise(files)),
    }


def count_returns(organism: Organism, say: Say) -> int:
    """The calls with which the general step leaves the file of ``conclude_in_pieces``."""
    rules = build(organism).rules
    moments = (Moment(float(number), bytes([number]) * 16) for number in range(1, 4))
    conversation = Conversation.begin("figures", next(moments))
    asked = rules.codecs.of(type(say)).encode(say).encode()
    outcome = decisions.receive(conversation, OutsideMessage(asked, "r", "echo"), rules, next(moments))
    (delivery,) = outcome.ready
    accepted = decisions.accept(outcome.conversation, delivery, rules, outcome.parsed[delivery.id])
    assert isinstance(accepted, decisions.AcceptedDelivery)
    said = normalise(agentserver.HandlerResponse.respond(say), rules.codecs, rules.bounds, accepted.room)
    assert isinstance(said, Drafts)
    finished, moment, calls = (
        FinishedInvocation(delivery, accepted.element, HandlerReturn(said)),
        next(moments),
        Calls(),
    )
    with calls.watch():
        run_pieces(decisions.conclude_in_pieces(outcome.conversation, finished, rules, moment))
    own = decisions.conclude_in_pieces.__code__.co_filename
    return sum(above == own != code.co_filename for code, above in calls.made)


def main() -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "organism.yaml").write_text(YAML, "utf-8")
        (folder / "echoing.py").write_text(ECHO, "utf-8")
        sys.path.insert(0, made)
        organism = load(folder / "organism.yaml", environ={}, project=folder)
        say = organism.listeners[0].listener.payloads[0]("hello")
        print(
            json.dumps({**anyio.run(count_passage, organism, say), "returns": count_returns(organism, say)})
        )


if __name__ == "__main__":
    main()
