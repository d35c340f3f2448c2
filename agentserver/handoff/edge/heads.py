"""The known end of the chain of a record of handoffs."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, NamedTuple, Protocol

from agentserver.foreign_json.reading import JsonLimits, parse_json_or_raise
from agentserver.handoff.audit import Seal, parse_previous_seal

if TYPE_CHECKING:
    from pathlib import Path


class ChainHead(NamedTuple):
    """The end of a chain.

    Args:
        end: the last record.
        line: that record, without a newline, as long as it may not be in the file: it is kept before it is written,
            so
            that a writer that died in between can be distinguished from one that cut the file. Empty once it is
                written.
        size: of the file with that record, in bytes; -1 when it is not known.
    """

    end: Seal = Seal()
    line: str = ""
    size: int = -1

    @property
    def before(self) -> Seal | None:
        """The end of the chain before that record; None when it is not known."""
        return parse_previous_seal(self.line)


class HeadStore(Protocol):
    """Keeps one head."""

    def read(self) -> ChainHead | None:
        """Return the kept head; None without one. Raises OSError, ValueError when it is spoiled."""

    def keep(self, head: ChainHead) -> None:
        """Keep it; when this returns it outlives the process. Raises OSError."""


class FileHeadStore:
    """Head store in a note next to the file, of mode 0600.

    Args:
        file: the record.
    """

    def __init__(self, file: Path) -> None:
        self.path = file.with_name(f"{file.name}.end")

    def read(self) -> ChainHead | None:
        """Return the head that the note names. Raises OSError, ValueError when it says nothing that makes sense."""
        try:
            members = parse_json_or_raise(self.path.read_bytes(), JsonLimits())
            end = Seal(int(members["count"]), str(members["hash"]))
            line = str(members.get("line", ""))
            line.encode()  # text that no file holds is no line
            return ChainHead(end, line, int(members.get("size", -1)))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            raise ValueError(f"{self.path}: is no note of where a chain ends") from None

    def keep(self, head: ChainHead) -> None:
        """Rewrite the note. Raises OSError."""
        new = self.path.with_name(f".{self.path.name}.new")
        text = json.dumps(
            {"count": head.end.count, "hash": head.end.hash, "line": head.line, "size": head.size}
        )
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.path)
