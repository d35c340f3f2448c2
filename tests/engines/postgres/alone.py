"""One engine on a Postgres of its own, for the checks of an engine that is alone on its storage."""

from __future__ import annotations

from agentserver.engines.postgres import PostgresEngine
from agentserver.ports import Claim, GainedClaims

UNCLAIMED = Claim(1 << 40, 0)


class AloneEngine(PostgresEngine):
    """Claims each conversation that something is asked of, since there is nobody else to have it."""

    def current_claim(self, conversation):
        return super().current_claim(conversation) or UNCLAIMED

    async def commit(self, claim, outcome):
        if claim == UNCLAIMED:
            key = outcome.conversation.id
            claim = await self.claim(key)
            if claim is None or not claim.epoch:
                claim = self.begin_claim(key)
        await super().commit(claim, outcome)

    async def changes(self):
        active = await self.read(lambda reader: reader.active())
        while any(super(AloneEngine, self).current_claim(key) is None for key in active):
            await self._claims.take()
            for key in active:
                await self.claim(key)
        yield GainedClaims({key: self.current_claim(key) for key in active})

    async def suspend(self, conversation, reason, at):
        await self.claim(conversation)
        return await super().suspend(conversation, reason, at)

    async def open_conversations(self):
        found = await self.read(
            lambda reader: [(one.id, one.principal) for one in reader.conversations() if one.closed is None]
        )
        gone = await self.read(lambda reader: [one.id for one in reader.list_suspended()])
        for key, principal in found:
            if key not in gone:
                yield key, principal

    async def __aexit__(self, kind, error, trace):
        self.marks.end()
        return await super().__aexit__(kind, error, trace)
