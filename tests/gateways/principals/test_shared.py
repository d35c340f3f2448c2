"""Principals that several servers share: one value, changed by one at a time, and a file at each server that follows it."""

from __future__ import annotations

import logging

import anyio
import pytest

from agentserver.broker.value import KeptValue
from agentserver.gateways.principals import Tokens, shared
from agentserver.gateways.principals.document import KnownError
from agentserver.gateways.principals.shared import MOST
from tests.gateways.principals.people import caller
from tests.machine import HANGS

pytestmark = pytest.mark.anyio


class Value:
    """A shared value in memory; ``between`` is run before each write, as another who writes first."""

    bucket = "AS_PRINCIPALS_desk"

    def __init__(self):
        self.edition, self.away, self.between = KeptValue(b"", 0), "", None

    async def read(self):
        if self.away:
            raise OSError(self.away)
        return self.edition

    async def write(self, data, after):
        if self.between is not None:
            between, self.between = self.between, None
            await between()
        if after != self.edition.number:
            return False
        self.edition = KeptValue(data, after + 1)
        return True


@pytest.fixture
def value():
    return Value()


async def names(value):
    return [(each.caller.name, each.revoked is None) for each in await shared.entries(value)]


async def test_a_principal_is_added_revoked_and_added_again(value):
    first = await shared.add(value, caller("ada"))
    assert first.encode() not in value.edition.data
    with pytest.raises(KnownError):
        await shared.add(value, caller("ada"))
    await shared.revoke(value, "ada")
    assert await names(value) == [("ada", False)]
    with pytest.raises(LookupError):
        await shared.revoke(value, "ada")
    assert await shared.add(value, caller("ada")) != first
    assert await names(value) == [("ada", True)]


async def test_two_who_add_at_once_are_both_there(value):
    async def other():
        await shared.add(value, caller("eve"))

    value.between = other
    await shared.add(value, caller("ada"))
    assert await names(value) == [("eve", True), ("ada", True)]


async def test_who_never_gets_its_turn_is_told(value):
    async def always():
        value.edition = KeptValue(value.edition.data, value.edition.number + 1)
        value.between = always

    value.between = always
    with pytest.raises(OSError, match="try again"):
        await shared.add(value, caller("ada"))


async def test_an_illegible_value_is_changed_by_nobody(value):
    value.edition = KeptValue(b"{", 1)
    for change in (shared.add(value, caller("ada")), shared.revoke(value, "ada"), shared.entries(value)):
        with pytest.raises(ValueError, match="principals of the cluster"):
            await change
    assert value.edition == KeptValue(b"{", 1)


async def test_a_file_of_principals_is_the_first_edition_or_none(value):
    other = Value()
    await shared.add(other, caller("ada"))
    with pytest.raises(ValueError, match="the file of principals: "):
        await shared.begin(value, b"{}")
    with pytest.raises(ValueError, match="no principals in it"):
        await shared.begin(value, b"")
    with pytest.raises(ValueError, match="more than"):
        await shared.begin(value, other.edition.data + b" " * MOST)
    await shared.begin(value, other.edition.data)
    assert await names(value) == [("ada", True)]
    await shared.begin(value, other.edition.data)
    await shared.revoke(value, "ada")
    with pytest.raises(ValueError, match="already"):
        await shared.begin(value, other.edition.data)


async def test_a_revocation_reaches_the_file_that_a_server_watches(value, tmp_path):
    path = tmp_path / "out" / "replica.sqlite.principals"
    path.parent.mkdir()
    path.write_bytes(b"what something else has left")
    path.chmod(0o644)
    tokens = Tokens(path)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(shared.mirror, value, path, 0.001)
        token = await shared.add(value, caller("ada"))
        async with tokens.watching(0.001):
            with anyio.fail_after(HANGS):
                while tokens.authenticate(token) is None:  # noqa: ASYNC110 - a file tells nobody
                    await anyio.sleep(0.001)
                await shared.revoke(value, "ada")
                while tokens.authenticate(token) is not None:  # noqa: ASYNC110
                    await anyio.sleep(0.001)
        tasks.cancel_scope.cancel()
    assert path.stat().st_mode & 0o077 == 0


async def test_while_the_value_is_away_the_file_stays_and_it_is_said_once(value, tmp_path, caplog):
    path = tmp_path / "replica.sqlite.principals"
    await shared.add(value, caller("ada"))
    with caplog.at_level(logging.WARNING):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(shared.mirror, value, path, 0.001)
            with anyio.fail_after(HANGS):
                while not path.exists():  # noqa: ASYNC110 - a file tells nobody
                    await anyio.sleep(0.001)
                value.away = "no broker"
                while not caplog.records:  # noqa: ASYNC110
                    await anyio.sleep(0.001)
                await anyio.sleep(0.05)  # it would be said again
            tasks.cancel_scope.cancel()
    assert path.read_bytes() == value.edition.data
    assert [record.getMessage() for record in caplog.records] == [
        "who was revoked lately is not known: no broker"
    ]


async def test_where_nothing_was_written_nobody_is_known_by_a_file_that_was_there(value, tmp_path):
    path = tmp_path / "replica.sqlite.principals"
    path.write_bytes(b"{}")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(shared.mirror, value, path, 0.001)
        with anyio.fail_after(HANGS):
            while path.exists():  # noqa: ASYNC110 - a file tells nobody
                await anyio.sleep(0.001)
        tasks.cancel_scope.cancel()


async def test_principals_that_the_broker_has_no_more_are_put_aside_and_the_log_says_so(
    value, tmp_path, caplog
):
    """Everybody was refused, the copies of all servers went, and no log said why."""
    path = tmp_path / "replica.db.principals"
    token = await shared.add(value, caller("ada"))
    tokens = Tokens(path)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(shared.mirror, value, path, 0.001)
        async with tokens.watching(0.001):
            with anyio.fail_after(HANGS):
                while tokens.authenticate(token) is None:  # noqa: ASYNC110 - a file tells nobody
                    await anyio.sleep(0.001)
                kept, value.edition = value.edition.data, KeptValue(b"", 0)
                while tokens.authenticate(token) is not None:  # noqa: ASYNC110
                    await anyio.sleep(0.001)
        tasks.cancel_scope.cancel()
    (aside,) = tmp_path.glob("replica.db.principals.lost-*")
    assert aside.read_bytes() == kept
    assert aside.stat().st_mode & 0o077 == 0
    assert not path.exists()
    (told,) = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert told.startswith("AS_PRINCIPALS_desk: the broker has the principals of this cluster no more")
    assert f"agentserver principals restore {aside} puts it back" in told
    await shared.begin(value, aside.read_bytes())
    assert await names(value) == [("ada", True)]


async def test_a_second_loss_takes_nothing_of_the_first(value, tmp_path):
    path = tmp_path / "replica.db.principals"
    for name in ("ada", "eve"):
        await shared.add(value, caller(name))
        await shared._follow(value, path)
        value.edition = KeptValue(b"", 0)
        await shared._follow(value, path)
    assert len(list(tmp_path.glob("*.lost-*"))) == 2


async def test_a_file_takes_the_place_of_principals_that_were_removed_and_of_no_others(value):
    other = Value()
    await shared.add(other, caller("ada"))
    value.edition = KeptValue(b"", 7)
    await shared.begin(value, other.edition.data)
    assert await names(value) == [("ada", True)]
    await shared.add(other, caller("eve"))
    with pytest.raises(ValueError, match="already"):
        await shared.begin(value, other.edition.data)


async def test_an_illegible_value_is_written_to_the_file_once(value, tmp_path):
    path = tmp_path / "replica.db.principals"
    value.edition = KeptValue(b"{", 1)
    await shared._follow(value, path)
    before = path.stat().st_ino
    await shared._follow(value, path)
    assert path.stat().st_ino == before


async def test_principals_that_somebody_has_written_over_are_put_aside_too(value, tmp_path):
    """What was written over them took the place of every server's copy."""
    path = tmp_path / "replica.db.principals"
    await shared.add(value, caller("ada"))
    await shared._follow(value, path)
    kept, value.edition = value.edition.data, KeptValue(b"junk", 7)
    await shared._follow(value, path)
    (aside,) = tmp_path.glob("*.lost-*")
    assert (aside.read_bytes(), path.read_bytes()) == (kept, b"junk")
    with pytest.raises(
        ValueError, match=r"remove the bucket AS_PRINCIPALS .* then agentserver principals restore FILE"
    ):
        await shared.entries(value)
