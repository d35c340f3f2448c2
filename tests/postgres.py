"""A Postgres server of the tests' own: in a temporary folder, on a Unix socket, as an ordinary user.

Owns the search for its programs, and their end with the tests. Where they are missing, tests skip, but in CI
they fail.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.machine import HANGS, report_missing

PLACES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin")
USERS = ("postgres", "nobody")
"""Who runs it where the tests are run by root, which Postgres refuses."""

SETTINGS = {
    "fsync": "off",
    "listen_addresses": "''",
    "max_connections": "200",
    "max_prepared_transactions": "0",
}


def programs() -> Path:
    """Find the folder of Postgres' programs. Skips the test, or fails it in CI, without one."""
    found = [each for place in PLACES for each in Path("/").glob(place[1:]) if (each / "initdb").is_file()]
    known = shutil.which("initdb")
    if not found and known is None:
        report_missing("there is no Postgres: apt-get install postgresql")
    return max(found) if found else Path(known).parent


def unprivileged_user() -> str | None:
    """The user that runs Postgres; None for that of the tests."""
    if os.geteuid():
        return None
    known = {each.pw_name for each in pwd.getpwall()}
    return next((each for each in USERS if each in known), None)


@dataclass
class Postgres:
    """A server in a folder. ``settings`` go into its configuration."""

    folder: Path
    settings: dict[str, str] = field(default_factory=dict)
    numbers: count = field(default_factory=count)

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def run(self, program: str, *options: str, check: bool = True) -> subprocess.CompletedProcess:
        """Run one of Postgres' programs as the user of the server."""
        return subprocess.run(
            [programs() / program, *options], user=unprivileged_user(), extra_groups=[] if os.geteuid() == 0 else None,
            cwd=self.folder, check=check, capture_output=True, text=True, timeout=HANGS,
        )  # fmt: skip

    def create(self) -> None:
        """Make an empty cluster of databases."""
        self.run(
            "initdb",
            "-D",
            str(self.data),
            "-A",
            "trust",
            "-U",
            "postgres",
            "--no-sync",
            "-E",
            "UTF8",
            "--locale=C",
        )
        self.configure(**{**SETTINGS, "unix_socket_directories": f"'{self.folder}'", **self.settings})

    def configure(self, **settings: str) -> None:
        """Add to the configuration, which counts from the next start or reload on."""
        with (self.data / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.writelines(f"{name} = {value}\n" for name, value in settings.items())

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        self.run(
            "pg_ctl", "-D", str(self.data), "-w", "-t", str(HANGS), "-l", str(self.folder / "log"), "start"
        )

    def stop(self, mode: str = "fast") -> None:
        """Stop it: smart, fast, or immediate, which is a crash."""
        self.run("pg_ctl", "-D", str(self.data), "-w", "-t", str(HANGS), "-m", mode, "stop")

    @property
    def pid(self) -> int:
        """The process of the postmaster."""
        return int((self.data / "postmaster.pid").read_text().split()[0])

    def url(self, database: str = "postgres", **settings: str) -> str:
        """The address of a database."""
        more = "".join(f"&{name}={quote(value)}" for name, value in settings.items())
        return f"postgresql://postgres@/{database}?host={quote(str(self.folder), safe='')}{more}"

    def execute(self, statement: str, database: str = "postgres") -> list:
        """Run one statement by a connection of its own."""
        import asyncpg

        async def run():
            connection = await asyncpg.connect(self.url(database))
            try:
                return await connection.fetch(statement)
            finally:
                await connection.close()

        return asyncio.run(run())

    def database(self) -> str:
        """Make an empty database; gives its name."""
        name = f"test_{next(self.numbers)}"
        self.execute(f"create database {name}")
        return name


@contextmanager
def run_server(**settings: str):
    """A server for as long as this lasts, with more settings than others have."""
    programs()
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))  # a socket's path has at most 107 bytes
    user = unprivileged_user()
    if user is not None:
        shutil.chown(folder, user)
    server = Postgres(folder, settings)
    try:
        server.create()
        server.start()
        yield server
    finally:
        if (server.data / "postmaster.pid").exists():
            server.run("pg_ctl", "-D", str(server.data), "-w", "-m", "immediate", "stop", check=False)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres():
    """One server for all tests of a process. Who stops it starts it again."""
    with run_server() as server:
        yield server


@pytest.fixture
def database(postgres):
    """The address of an empty database."""
    return postgres.url(postgres.database())
