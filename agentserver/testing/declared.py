"""Organisms declared in code instead of YAML.

Signatures are checked as for YAML; names and peers are not.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentserver.config import Organism
from agentserver.config.code.signature import Discovery, SignatureRefusal, read_signature
from agentserver.config.keys.approval import read_denials, read_rule
from agentserver.config.organism import BoundListener, SourceLine
from agentserver.config.yaml.secrets import Secrets
from agentserver.contract import SYSTEM_PAYLOADS
from agentserver.core.blueprint import Limits, Listener

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping

    from agentserver.config.organism import Lifespan


def listener(
    name: str,
    handler: Callable[..., Awaitable[Any] | AsyncIterator[Any]],
    *payloads: type,
    peers: Iterable[str] = (),
    replies: Iterable[type] = (),
    settings: object | None = None,
    approval: bool | Mapping[str, Any] = False,
    **facts: Any,
) -> BoundListener:
    """Declare a listener in code.

    Args:
        name: of the listener.
        handler: its v2.1 handler, or a function with typed parameters of its own.
        payloads: the classes that it accepts; by default those of the handler's annotation.
        peers: listeners that it may address.
        replies: classes that it answers with or stores, unless its module names them at the top.
        settings: the value of ``invocation().settings``.
        approval: True if every message to it needs an approval, or the mapping that the YAML has under ``approval:``.
        facts: ``deny``, the mapping that the YAML has, ``description``, ``agent``, ``broadcast``,
            ``concurrency``, ``deadline``, ``retries``.

    Raises:
        TypeError: the handler's signature does not fit the contract, or its payloads are unknown or the system's.
    """
    signature = read_signature(handler)
    if isinstance(signature, SignatureRefusal):
        raise TypeError(signature.message)
    accepted = payloads or tuple(kind for kind in signature.payloads if kind not in SYSTEM_PAYLOADS)
    if not accepted:
        raise TypeError(f"{name}: name the payload classes, or annotate the handler's payload")
    if own := [kind.__name__ for kind in (*accepted, *replies) if kind in SYSTEM_PAYLOADS]:
        raise TypeError(f"{name}: {own[0]} belongs to the system")
    facts.setdefault("description", f"{name}.")
    facts["deny"] = read_denials(facts.get("deny", {}))
    facts.setdefault("progress", signature.progress)
    facts.setdefault("answers", signature.answers)
    declared = Listener(
        name=name,
        payloads=accepted,
        peers=frozenset(peers),
        approval=read_rule(approval),
        **facts,
    )
    place = SourceLine(Path(signature.file), signature.line)
    named = Discovery().list_classes(signature.function)
    known = tuple(dict.fromkeys((*accepted, *replies, *signature.answers, *signature.stored, *named)))
    return BoundListener(declared, signature.handler, settings, signature.returns_bytes, None, place, known)


def organism_of(
    *listeners: BoundListener,
    limits: Limits | None = None,
    lifespan: Lifespan | None = None,
    name: str = "test",
) -> Organism:
    """Make an organism of these listeners."""
    return Organism(
        name=name,
        project=Path.cwd(),
        listeners=listeners,
        limits=limits or Limits(),
        lifespan=lifespan,
        secrets=Secrets(),
        files=(),
    )
