"""The local server of both protocols, and completers that ask it."""

from __future__ import annotations

import time
from types import MappingProxyType

import pytest

from agentserver.completion import Backend, LanguageModels, ModelChoice, Request
from agentserver.llm.completer import Models
from tests.llm.providers import serve_providers


@pytest.fixture
def providers():
    with serve_providers() as state:
        yield state


@pytest.fixture
def remote(providers):
    """Gives a backend that asks the local server for a model."""

    def make(model="ok", provider="openai", **more):
        return Backend(
            more.pop("name", model), provider, model, "canary-key-7781", f"{providers.url}/{provider}", **more
        )

    return make


def scripted(name, *turns, **more):
    return Backend(name, "scripted", f"{name}-1", script=list(turns), **more)


def models(*backends, now=time.monotonic, **choice):
    """A completer whose model ``m`` has these backends."""
    names = tuple(one.name for one in backends)
    declared = LanguageModels(
        MappingProxyType({one.name: one for one in backends}),
        MappingProxyType({"m": ModelChoice("m", names, **choice)}),
    )
    return Models(declared, now)


def request(*messages, until=20.0, now=time.monotonic, **more):
    said = messages or ({"role": "user", "content": "ping"},)
    return Request(said, "agent", now() + until, **more)
