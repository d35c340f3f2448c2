"""The command line, for the files that it writes."""

from __future__ import annotations

from tests.cli.conftest import command

__all__ = ["command"]
