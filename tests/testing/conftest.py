"""The local server of both protocols, for tests that must not ask it."""

from __future__ import annotations

from tests.llm.conftest import providers, remote

__all__ = ["providers", "remote"]
