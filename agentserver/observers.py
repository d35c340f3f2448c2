"""Observers: what a program is told of everything that happens.

Owns the names that the author of an observer imports. Refuses to know how one is told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from agentserver.core.audit import Event, Record

__all__ = ["Event", "Observer", "Record"]

Observer: TypeAlias = Callable[[tuple[Record, ...]], object]
"""Called with the records of a committed step, those of one conversation in order, in a thread of the observer's own.

The result is not looked at. It can neither stop nor change a message.
"""
