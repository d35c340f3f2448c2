"""Reloads while many conversations work: nothing is lost, nothing happens twice, and no conversation mixes editions."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from agentserver import HandlerResponse
from agentserver.core.records.audit import Event
from agentserver.engines.memory import MemoryEngine
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import JournalOptions
from agentserver.pump.editions import Callee, Edition
from tests.core.paper import Answer, Ask, Note, listener, rules
from tests.fuzzing import examples
from tests.pump.desk import desk


class Works:
    """An organism of two listeners in any number of editions, and its handlers' calls.

    ``a`` hands each message on to ``b`` and answers with what comes back; each adds the number of its edition.
    """

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.begun, self.at_work = defaultdict(list), Counter()
        self.mixed = []

    async def pause(self):
        for _ in range(self.random.choice((0, 0, 1, 3, 10, 40))):
            await asyncio.sleep(0)

    def handlers(self, number):
        async def work(text):
            conversation = text.split()[0]
            others = [
                key
                for key in self.at_work
                if key[0] == conversation and key[1] != number and self.at_work[key]
            ]
            self.mixed += others
            self.begun[conversation].append(number)
            self.at_work[conversation, number] += 1
            await self.pause()
            self.at_work[conversation, number] -= 1

        async def a(payload, metadata):
            await work(payload.text)
            if isinstance(payload, Answer):
                return HandlerResponse.respond(Answer(f"{payload.text} a{number}"))
            return HandlerResponse(Ask(f"{payload.text} a{number}"), "b")

        async def b(payload, metadata):
            await work(payload.text)
            return HandlerResponse.respond(Answer(f"{payload.text} b{number}"))

        return a, b

    def pairs(self, number):
        a, b = self.handlers(number)
        room = self.random.choice((1, 2, 8))
        return (
            (listener("a", "b", payloads=(Ask, Answer), concurrency=room), a),
            (listener("b", concurrency=self.random.choice((1, 4))), b),
        )

    def edition(self, number):
        pairs = self.pairs(number)
        shop = rules(*(one for one, _ in pairs), payloads=(Answer, Note), drain=1.0)
        return Edition(shop, {one.name: Callee(one, handler) for one, handler in pairs})


async def work_rounds(engine, seed, conversations, messages, reloads):
    works = Works(seed)
    async with engine, desk(*works.pairs(0), engine=engine) as d:
        handles = [await d.open() for _ in range(conversations)]

        async def ask(at, number):
            await works.pause()
            return (await d.ask(Ask(f"c{at} m{number}"), handle=handles[at])).text

        async def reload():
            for number in range(1, reloads + 1):
                await works.pause()
                d.pump.reloads.swap(works.edition(number))

        asked = [ask(at, number) for at in range(conversations) for number in range(messages)]
        answers, _ = await asyncio.gather(asyncio.gather(*asked), reload())
        await d.pump.reloads.wait_moved()
        last = (await d.ask(Ask("last m"), handle=handles[0])).text
        editions = d.pump._editions
        assert not (editions.earlier)
        assert not (editions.working)
        assert not (editions._held_deliveries)
        handled = Counter(record.delivery for record in d.records if record.event is Event.HANDLED)
    return works, answers, last, handled


def assert_held(engine, seed, conversations, messages, reloads):
    works, answers, last, handled = asyncio.run(work_rounds(engine, seed, conversations, messages, reloads))
    total = conversations * messages
    assert sorted(answer.split(" a")[0] for answer in answers) == sorted(
        f"c{at} m{number}" for at in range(conversations) for number in range(messages)
    )
    assert set(handled.values()) == {1}
    assert len(handled) == 3 * (total + 1)  # a, b and a again
    assert not works.mixed
    for numbers in works.begun.values():
        assert numbers == sorted(numbers)
    assert last == f"last m a{reloads} b{reloads} a{reloads}"


SHAPE = st.tuples(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 6), st.integers(1, 5))


@settings(max_examples=examples(25), deadline=None, phases=(Phase.explicit, Phase.generate))
@given(SHAPE)
def test_nothing_is_lost_or_done_twice_in_memory(shape):
    assert_held(MemoryEngine(), *shape)


@settings(max_examples=examples(6), deadline=None, phases=(Phase.explicit, Phase.generate))
@given(SHAPE)
def test_nothing_is_lost_or_done_twice_with_a_journal(shape):
    with tempfile.TemporaryDirectory() as folder:
        assert_held(SqliteEngine(JournalOptions(Path(folder) / "j.sqlite")), *shape)
