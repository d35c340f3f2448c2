"""A PgBouncer of the tests' own, in transaction mode, before the tests' Postgres server.

Owns the search for its program, and its end with the test. Where it is missing, tests skip, but in CI they
fail.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from tests.machine import HANGS, report_missing
from tests.postgres import unprivileged_user

PLACES = "/usr/sbin:/usr/bin:/usr/local/bin:/opt/homebrew/bin"
BACKENDS = 3
"""Fewer than one server has connections, so that statements of one connection reach several backends."""

SETTINGS = """
[databases]
* = host={server} user=postgres
[pgbouncer]
unix_socket_dir = {folder}
listen_addr =
auth_type = any
pool_mode = transaction
max_client_conn = 200
default_pool_size = {backends}
"""


@contextmanager
def run_pool(postgres):
    """Run it for as long as this lasts; gives a function from the name of a database to its address."""
    program = shutil.which("pgbouncer", path=PLACES)
    if program is None:
        report_missing("there is no PgBouncer: apt-get install pgbouncer")
    folder = Path(tempfile.mkdtemp(prefix="pgb-", dir="/tmp"))
    file = folder / "pgbouncer.ini"
    text = SETTINGS.format(server=postgres.folder, folder=folder, backends=BACKENDS)
    file.write_text(text, "utf-8")
    user = unprivileged_user()
    if user is not None:
        shutil.chown(folder, user)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [program, str(file)],
            user=user,
            extra_groups=None if user is None else [],
            stdout=log,
            stderr=log,
        )
    try:
        end = time.monotonic() + HANGS
        while not (folder / ".s.PGSQL.6432").exists():
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < end, "PgBouncer does not start"
            time.sleep(0.02)
        host = quote(str(folder), safe="")
        yield lambda name: f"postgresql://postgres@/{name}?host={host}&port=6432"
    finally:
        process.kill()
        process.wait(HANGS)
        shutil.rmtree(folder, ignore_errors=True)
