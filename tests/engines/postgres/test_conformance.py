"""The promises of every engine, and those of several on one storage, over a real Postgres."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from agentserver.engines.conformance.suite import CHECKS, Subject
from agentserver.engines.conformance.together import TOGETHER, SharedSubject
from agentserver.engines.postgres import PostgresEngine, PostgresOptions
from tests.engines.postgres.alone import AloneEngine

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_one_engine_keeps_every_promise(check, database):
    options = PostgresOptions(database)
    subject = Subject(
        lambda: AloneEngine(options),
        durable=True,
        guarded=lambda guards: AloneEngine(options, guards),
        retaining=lambda seconds: AloneEngine(options, retention=seconds),
    )
    await check(subject)


class Stoppable(PostgresEngine):
    """An engine whose process can be stopped, as far as its lease is concerned."""

    stopped = False

    def stop(self):
        """Renew no lease, and claim nothing."""
        self.stopped = True
        renew, take = self._lease.renew, self._claims.take

        async def nothing():
            return 0

        self._lease.renew = self._claims.take = nothing
        self.move = lambda: (setattr(self._lease, "renew", renew), setattr(self._claims, "take", take))


def shared_engines(url, postgres) -> SharedSubject:
    """Engines over this database, with a short lease."""
    options = PostgresOptions(url, lease=0.5)
    engines = {}
    names = url.rpartition("/")[2].partition("?")[0]

    def open_(name):
        engines[name] = Stoppable(replace(options, name=name))
        return engines[name]

    async def stop_briefly(name):
        engines[name].stop()
        await asyncio.sleep(2 * options.lease)

    async def move_engine(name):
        engines[name].move()

    async def rest():
        await asyncio.to_thread(
            postgres.execute, "update agentserver.conversation set moved = moved - interval '1 minute'", names
        )

    @asynccontextmanager
    async def cut_off():
        await asyncio.to_thread(postgres.stop, "immediate")
        try:
            yield
            await asyncio.sleep(2 * options.lease)
        finally:
            await asyncio.to_thread(postgres.start)

    return SharedSubject(open_, stop_briefly, move_engine, cut_off, rest)


@pytest.mark.parametrize("check", TOGETHER, ids=lambda check: check.__name__)
async def test_engines_on_one_database_keep_every_promise(check, postgres, database):
    await check(shared_engines(database, postgres))
