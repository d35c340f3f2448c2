"""Lines from standard input, without a prompt library: pipes, files, bare terminals.

Owns the splitting of bytes into lines and the waiting for them. Refuses to know what a line means.
"""

from __future__ import annotations

import contextlib
import os
from enum import Enum
from typing import TYPE_CHECKING, Protocol, TypeAlias

import anyio
import anyio.to_thread

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_LINE = 1 << 22
"""Bytes of one line; a longer one ends the input."""

_CHUNK = 1 << 16


class ControlKey(Enum):
    """A key that comes instead of a line."""

    END = "end"
    INTERRUPT = "interrupt"
    TOO_LONG = "too long"


Typed: TypeAlias = str | ControlKey


class Lines(Protocol):
    """The source of the console's lines."""

    @property
    def concurrent(self) -> bool:
        """True when output may appear while a line is typed, so that the prompt need not wait for what runs."""
        ...

    async def next(self, prompt: str) -> Typed:
        """The next line without its end. After ``ControlKey.END`` there is none."""
        ...

    def clear(self, prompt: str) -> bool:
        """Forget what is typed of a line and ask for it with this prompt. True when there was something."""
        ...


class PlainLines:
    """Lines of a file descriptor. What is no UTF-8 arrives as surrogates (PEP 383).

    Args:
        descriptor: to read from; left as it is, in blocking mode.
        show: prints the prompt, or None when there is no reader.
    """

    concurrent = False

    def __init__(self, descriptor: int, show: Callable[[str], None] | None = None) -> None:
        self._descriptor = descriptor
        self._show = show
        self._pending = b""
        self._over = False

    async def next(self, prompt: str) -> Typed:
        """The next line."""
        if self._show is not None:
            self._show(prompt)
        while b"\n" not in self._pending:
            if len(self._pending) > MAX_LINE:
                return ControlKey.TOO_LONG
            if self._over:
                last, self._pending = self._pending, b""
                return _text(last) if last else ControlKey.END
            await self._read()
        line, _, self._pending = self._pending.partition(b"\n")
        return _text(line)

    def clear(self, prompt: str) -> bool:
        """Ask again: what is typed of a line the terminal itself has forgotten, without a word."""
        if self._show is not None:
            self._show(f"\n{prompt}")
        return False

    async def _read(self) -> None:
        # A regular file is always readable, and epoll refuses it.
        with contextlib.suppress(PermissionError):
            await anyio.wait_readable(self._descriptor)
        chunk = await anyio.to_thread.run_sync(os.read, self._descriptor, _CHUNK)
        self._over = not chunk
        self._pending += chunk


def _text(line: bytes) -> str:
    return line.removesuffix(b"\r").decode(errors="surrogateescape")
