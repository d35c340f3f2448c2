"""Logging of the command line: where records go and how they read.

Owns the one handler and its two formats. Secrets never pass it, and text is made harmless for terminals.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from agentserver.config.yaml.secrets import Secrets


class Level(StrEnum):
    """Least severity that is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Format(StrEnum):
    """The form of log records."""

    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Logging:
    """The settings of logging on the command line."""

    level: Level = Level.WARNING
    format: Format = Format.TEXT


MARGIN = "  | "
"""The mark before each line of a traceback, so that none passes for a record."""

_EXTRAS = {"conversation": "conversation", "thread": "thread_id"}
"""The subjects of a record, and the attribute that names each; ``thread`` itself is logging's own."""


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


class TextFormatter(logging.Formatter):
    """Time, level, logger, message, then conversation and thread where there are some."""

    def format(self, record: logging.LogRecord) -> str:
        """One line for a message of any text, and the traceback below it behind a margin."""
        from agentserver.trace.terminal import cut, visible_lines

        where = " ".join(f"{key}={value}" for key, value in _about(record))
        text = f"{_time(record)} {record.levelname:7} {record.name}: {record.getMessage()}"
        below = (f"{MARGIN}{line}" for part in _tail(self, record) for line in visible_lines(part))
        return "\n".join([cut(f"{text} [{where}]" if where else text), *below])


class JsonFormatter(logging.Formatter):
    """One object a line: time, level, logger, message, conversation, thread, traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """The object."""
        fields = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **dict(_about(record)),
        }
        tail = "\n".join(_tail(self, record))
        return json.dumps({**fields, "traceback": tail} if tail else fields)


def _about(record: logging.LogRecord) -> Iterator[tuple[str, str]]:
    return ((key, str(getattr(record, name))) for key, name in _EXTRAS.items() if hasattr(record, name))


def _tail(formatter: logging.Formatter, record: logging.LogRecord) -> list[str]:
    traced = record.exc_text or (formatter.formatException(record.exc_info) if record.exc_info else "")
    return [part for part in (traced, record.stack_info) if part]


class _StandardError(logging.StreamHandler[TextIO]):
    """Writes to the standard error of the moment: a prompt replaces it while it lasts.

    A prompt writes by the event loop, so what is said of a loop that is held goes past it.
    """

    def emit(self, record: logging.LogRecord) -> None:
        if sys.stderr is sys.__stderr__ or not getattr(record, "held", False):
            super().emit(record)
        elif sys.__stderr__ is not None:
            sys.__stderr__.write(f"\n{self.format(record)}\n")
            sys.__stderr__.flush()

    @property
    def stream(self) -> TextIO:
        return sys.stderr

    @stream.setter
    def stream(self, value: TextIO) -> None:
        """Ignored: the base class sets it once."""


def configure(options: Logging, secrets: Secrets) -> logging.Handler:
    """Log to standard error from now on; gives the handler. Uncaught exceptions are redacted too."""
    from agentserver.config.yaml.secrets import RedactingFilter
    from agentserver.trace.terminal import visible_lines  # now, and not when something is amiss

    handler = _StandardError()
    handler.setFormatter(JsonFormatter() if options.format is Format.JSON else TextFormatter())
    redacting = RedactingFilter(secrets)
    handler.addFilter(redacting)
    logging.basicConfig(level=options.level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(True)

    def uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        text = redacting.redact("".join(traceback.format_exception(kind, error, trace)).rstrip("\n"))
        sys.stderr.write("".join(f"{line}\n" for line in visible_lines(text)))

    sys.excepthook = uncaught
    return handler


def hide(secrets: Secrets) -> None:
    """Keep more secrets out of what is logged from now on."""
    from agentserver.config.yaml.secrets import RedactingFilter

    for handler in logging.getLogger().handlers:
        for each in handler.filters:
            if isinstance(each, RedactingFilter):
                each.hide(secrets)


def without_hops(record: logging.LogRecord) -> bool:
    """Keep out the events of a conversation, which a live view of hops shows already, and nothing else."""
    return record.name != "agentserver.pump" or not hasattr(record, "event")
