"""Requirements of the machine: missing ones skip tests, but fail them in CI.

Owns the detection of CI, the timeout that only catches hangs, and the names of chromium. Imports
no part of the package, so that a framework's own environment can use it.
"""

from __future__ import annotations

import os
import shutil
import ssl
from typing import NoReturn

HANGS = 100
"""Seconds for what comes at once on an idle machine: a guard against hanging and nothing else. A machine may be busy, so
that no test says how fast it is: bounds are asserted as work, or by a clock of the test's own."""


PLAIN = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For a client of ``http://``: httpx reads the authorities of the machine for each client otherwise, in 60 ms of CPU."""


def in_ci() -> bool:
    """Whether nothing may be skipped."""
    return os.environ.get("CI", "").lower() not in {"", "0", "false"}


def chromium() -> str | None:
    """Return the path of the system's chromium, or None."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def report_missing(what: str) -> NoReturn:
    """End a test that the machine has not got the means for."""
    import pytest  # not for the servers that tests start and kill: they need the bound above

    (pytest.fail if in_ci() else pytest.skip)(what)
