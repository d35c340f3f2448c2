"""Rules whose messages the guard of provenance watches, as a server puts them together."""

from __future__ import annotations

from agentserver.guards.builtin import PeersGuard
from agentserver.guards.lineage.guard import LineageGuard
from agentserver.guards.lineage.trust import TrustSettings
from tests.core.paper import rules


def watch_listeners(policy, *listeners, payloads, kind=LineageGuard, peers=True):
    """The rules of these listeners under a policy, or under settings that hold one."""
    made = rules(*listeners, payloads=payloads)
    trusted = policy if isinstance(policy, TrustSettings) else TrustSettings(policy)
    guard = kind(trusted, made.blueprint.listeners, made.codecs)
    return rules(*listeners, payloads=payloads, guards=[*([PeersGuard()] if peers else []), guard])
