"""The place up to which a session was listened to, kept in a file."""

from __future__ import annotations

import json
import os
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from agentserver.foreign_json.reading import JsonLimits, parse_json_or_raise

FOLDER: Final = Path("out")


class CursorPosition(NamedTuple):
    """The place to which a listener came.

    Args:
        since: the time, ISO 8601, from which the history is read again; empty for its beginning.
        had: ids of the events from then on that were dealt with.
    """

    since: str = ""
    had: tuple[str, ...] = ()


class SessionCursor:
    """Keeps how far one session was listened to, in a file of mode 0600.

    Args:
        session: its id.
        folder: the folder of the file.
    """

    def __init__(self, session: str, folder: Path = FOLDER) -> None:
        name = sha256(session.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        self.path = folder / f"handoff-cursor-{name}.json"

    def read(self) -> CursorPosition | None:
        """Return the kept value; None without one. Raises OSError, ValueError when it is spoiled."""
        try:
            members = parse_json_or_raise(self.path.read_bytes(), JsonLimits())
            return CursorPosition(str(members["since"]), tuple(map(str, members["had"])))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ValueError(f"{self.path}: is no note of how far a session was listened to") from None

    def keep(self, reached: CursorPosition) -> None:
        """Rewrite and fsync the file. Raises OSError."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = self.path.with_name(f".{self.path.name}.new")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump({"since": reached.since, "had": list(reached.had)}, file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.path)
