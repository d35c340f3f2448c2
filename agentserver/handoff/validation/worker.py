"""Validation by a foreign schema, in a process of its own that stays warm and can be killed.

A schema may hang its validator; the time here does not care why. It is the processor's: a valid document is not
refused because the machine has much else to do.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from agentserver.foreign_json.reading import JsonLimits, parse_json_or_raise
from agentserver.hygiene.objections import SchemaLanguage

if TYPE_CHECKING:
    from types import TracebackType

TIMEOUT: Final = 2.0
"""Seconds of the processor that one validation may take."""
LATEST: Final = 30.0
"""Seconds of wall clock after which it is given up in any case: a busy machine is not waited for without an end."""
START: Final = 30.0
"""Seconds that the process may take to start."""
BRIEF: Final = 0.01
"""Seconds between two looks at how much of its time a process has had."""
MOST: Final = 16 * 1024 * 1024
"""Bytes of a schema and its payload together."""

_PROGRAM: Final = str(Path(__file__).with_name("validator.py"))
_HEAD: Final = 4


class ValidationFailed(RuntimeError):  # noqa: N818 - what happened, not an error of the program
    """Payload not valid, schema none, or no answer in time. The text never quotes the payload."""


class ValidationWorker:
    """One worker process, started when first needed. Calls from several threads take turns.

    Use it as a context manager, or call ``close``.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process. A later call starts another."""
        with self._lock:
            self._kill()

    def validate(
        self,
        payload: Any,
        schema: Any,
        *,
        kind: SchemaLanguage = SchemaLanguage.JSON,
        timeout: float = TIMEOUT,
    ) -> None:
        """Return when ``payload`` is valid.

        Args:
            payload: a JSON value; for XSD the document as text.
            schema: a JSON value; for XSD the schema as text.
            kind: the schema language.
            timeout: seconds of the worker's processor time, or of wall clock where the system does not report them.
                After
                ``LATEST`` seconds of wall clock it ends in any case.

        Raises:
            ValidationFailed: with the reason.
        """
        data = _message(payload, schema, kind)
        with self._lock:
            answer = self._ask(data, timeout)
        if answer.get("error"):
            raise ValidationFailed(str(answer["error"]))

    def _ask(self, data: bytes, timeout: float) -> dict[str, Any]:
        """Return the answer to one request. An exchange that is interrupted never leaves half an answer behind."""
        process = self._ensure_process()
        answered = False
        try:
            answer = _exchange(process, data, timeout)
            answered = True
        except TimeoutError:
            raise ValidationFailed(f"validation exceeded {timeout} s") from None
        except (OSError, ValueError):
            code = self._kill()
            raise ValidationFailed(f"the worker ended without a result (exit code {code})") from None
        finally:
            if not answered:
                self._kill()
        return answer

    def _ensure_process(self) -> subprocess.Popen[bytes]:
        """Return the process of this very program: a forked child must not share its parent's."""
        if self._process is not None and self._owner == os.getpid() and self._process.poll() is None:
            return self._process
        if self._owner == os.getpid():
            self._kill()
        self._process = subprocess.Popen(  # noqa: S603 - a file of this package
            [sys.executable, "-I", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            cwd="/",
        )
        self._owner = os.getpid()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
        try:
            _receive(self._process, _Wall(START))
        except (OSError, ValueError):  # a TimeoutError is an OSError
            code = self._kill()
            raise ValidationFailed(f"the worker did not start (exit code {code})") from None
        return self._process

    def _kill(self) -> int | None:
        process, self._process = self._process, None
        if process is None:
            return None
        ended = process.poll()
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        return ended


def _message(payload: Any, schema: Any, kind: SchemaLanguage) -> bytes:
    """Return the request for the worker. The schema is sent as text, which identifies it to the worker."""
    try:
        text = schema if isinstance(schema, str) else json.dumps(schema, allow_nan=False)
        data = json.dumps({"kind": kind, "schema": text, "payload": payload}, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError):
        raise ValidationFailed("the payload or the schema is no JSON value") from None
    if len(data) > MOST:
        raise ValidationFailed(f"payload and schema have more than {MOST} bytes together")
    return len(data).to_bytes(_HEAD) + data


class _Wall:
    """A time by the clock on the wall.

    Args:
        seconds: that it has.
    """

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def remaining(self) -> float:
        """Compute the seconds after which it is to be asked again; none are left afterwards."""
        return self._end - time.monotonic()


class _Processor(_Wall):
    """A time by the processor seconds of a process: on a busy machine they come late.

    Args:
        pid: of the process.
        seconds: that it has.
    """

    def __init__(self, pid: int, seconds: float) -> None:
        self._clock = (~pid << 3) | 2  # as Linux names the clock of a process
        begun = self._find_cpu_seconds()
        super().__init__(seconds if begun is None else max(seconds, LATEST))
        self._cpu_limit = None if begun is None else begun + seconds

    def remaining(self) -> float:
        """Return the seconds after which to ask again; none are left afterwards."""
        spent = self._find_cpu_seconds()
        if spent is None or self._cpu_limit is None:
            return super().remaining()
        return min(self._cpu_limit - spent, super().remaining())

    def _find_cpu_seconds(self) -> float | None:
        try:
            return time.clock_gettime(self._clock)
        except (OSError, AttributeError, OverflowError):
            return None


def _exchange(process: subprocess.Popen[bytes], data: bytes, timeout: float) -> dict[str, Any]:
    limit = _Processor(process.pid, timeout)
    assert process.stdin is not None
    pipe = process.stdin.fileno()
    remaining = memoryview(data)
    while remaining:
        _ready([], [pipe], limit)
        remaining = remaining[os.write(pipe, remaining) :]
    return _receive(process, limit)


def _receive(process: subprocess.Popen[bytes], limit: _Wall) -> dict[str, Any]:
    """Return one message. Raises TimeoutError, ValueError when the output ended, OSError."""
    head = _take(process, _HEAD, limit)
    answer = parse_json_or_raise(_take(process, int.from_bytes(head), limit), JsonLimits())
    return answer if isinstance(answer, dict) else {}


def _take(process: subprocess.Popen[bytes], count: int, limit: _Wall) -> bytes:
    assert process.stdout is not None
    pipe = process.stdout.fileno()
    parts = b""
    while len(parts) < count:
        _ready([pipe], [], limit)
        part = os.read(pipe, count - len(parts))
        if not part:
            raise ValueError("the output ended")
        parts += part
    return parts


def _ready(reading: list[int], writing: list[int], limit: _Wall) -> None:
    while (remaining := limit.remaining()) > 0:
        if any(select.select(reading, writing, [], max(remaining, BRIEF))):
            return
    raise TimeoutError
