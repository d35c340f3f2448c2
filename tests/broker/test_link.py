"""Connections to a broker, to what is none, and what the broker's permissions refuse."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
import trustme
from nats.errors import NoRespondersError
from nats.js.errors import BadRequestError, NoStreamResponseError, ServiceUnavailableError

from agentserver.broker.address import BrokerAddress, BrokerError
from agentserver.broker.link import Link, PermissionDeniedError, SilenceError, connected, troubles
from tests.brokers import broker, one
from tests.machine import HANGS

pytestmark = pytest.mark.anyio

USERS = """authorization { users: [
  {user: all, password: secret},
  {user: few, password: secret, permissions: {publish: {allow: ["may.Be"]}, subscribe: {allow: ["inbox.few.>"]}}}
] }"""
INFO = json.dumps({"server_id": "x", "version": "2.15.1", "max_payload": 1048576, "headers": True}).encode()


def address(folder, url, user="all", password="secret"):
    path = folder / f"{user}.{password}"
    path.write_text(f"{user}:{password}\n")
    return BrokerAddress(url, path)


async def test_an_answer_comes_and_where_nobody_listens_is_said(tmp_path):
    async with broker(tmp_path) as url, connected(BrokerAddress(url), name="a") as link:

        async def echo(msg):
            await link.say(msg.reply, msg.data[::-1])

        await link.hear("there", echo, 1 << 20)
        assert (await link.ask("there", b"abc", 2)).data == b"cba"
        with pytest.raises(SilenceError, match="no listener on nowhere"):
            await link.ask("nowhere", b"", 2)
        with pytest.raises(BrokerError, match="larger than the broker takes"):
            await link.say("there", bytes(link.most + 1))
        assert link.stands


async def test_a_refused_publish_names_its_permission_at_once(tmp_path):
    async with (
        broker(tmp_path, more=USERS) as url,
        connected(address(tmp_path, url, "few"), name="a", inbox="inbox.few") as link,
    ):
        with pytest.raises(PermissionDeniedError, match=r'refuse this user: publish to "not.mine"'):
            await link.ask("not.Mine", b"", HANGS)
        with pytest.raises(SilenceError, match=r"no listener on may\.Be"):
            await link.ask("may.Be", b"", HANGS)
        assert not link.denied.done()
        await link.say("another", b"")
        assert 'publish to "another"' in await asyncio.wait_for(link.denied, HANGS)


async def test_a_refused_inbox_ends_what_waits_for_answers(tmp_path):
    async with (
        broker(tmp_path, more=USERS) as url,
        connected(address(tmp_path, url, "few"), name="a", inbox="inbox.other") as link,
    ):
        with pytest.raises(PermissionDeniedError, match=r'refuse this user: subscription to "inbox.other'):
            await link.ask("may.Be", b"", HANGS)


async def test_a_wrong_password_is_said(tmp_path):
    async with broker(tmp_path, more=USERS) as url:
        with pytest.raises(BrokerError, match=r"(?i)authorization violation"):
            async with connected(address(tmp_path, url, "all", "wrong"), name="a"):
                pass


async def test_a_broker_that_goes_and_comes_again_is_found_again(tmp_path):
    async with one(tmp_path) as node, connected(BrokerAddress(node.url), name="a") as link:
        node.kill()
        with pytest.raises(BrokerError):
            await link.ask("there", b"", 0.5)
        await node.start()
        while not link.stands:  # noqa: ASYNC110 - the library tells by a property
            await asyncio.sleep(0.1)
        with pytest.raises(SilenceError, match="no listener"):
            await link.ask("there", b"", HANGS)


@asynccontextmanager
async def pretender(*said):
    """What listens like a broker and says that, line by line; the last is said after the client's first ping."""

    async def talk(reader, writer):
        try:
            writer.write(said[0])
            await reader.readuntil(b"PING\r\n")
            for each in said[1:]:
                writer.write(each)
            await reader.read()
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    try:
        yield f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


RUBBISH = [
    b"HTTP/1.1 400 Bad Request\r\n\r\n",
    b"\x00\xff\xfe\r\n",
    b"INFO \r\n",
    b"INFO {\r\n",
    b"INFO []\r\n",
    b"INFO 5\r\n",
    b'INFO {"max_payload": "many", "connect_urls": 7}\r\n',
    b"x" * 100_000 + b"\r\n",
    b"",
]


@pytest.mark.parametrize("said", RUBBISH, ids=range(len(RUBBISH)))
async def test_what_is_no_broker_is_refused_in_time(said, monkeypatch, caplog):
    monkeypatch.setattr("agentserver.broker.link.START", 0.6)
    async with pretender(said) as url:
        with pytest.raises(BrokerError):
            async with connected(BrokerAddress(url), name="a") as link:
                await link.ask("x", b"", 0.3)
    assert "Traceback" not in caplog.text


LATER = [
    b"rubbish\r\n",
    b"INFO {\r\n",
    b"INFO []\r\n",
    b"MSG x 99999999999999999999 5\r\nhello\r\n",
    b"HMSG x 1 2 5\r\nhello\r\n",
    b"-ERR 'Unknown Protocol Operation'\r\n",
    b"PONG\r\nPONG\r\nPONG\r\n",
    b"MSG x 1 9999999\r\n",
]


@pytest.mark.parametrize("said", LATER, ids=range(len(LATER)))
async def test_a_broker_that_turns_hostile_ends_no_wait_late(said, caplog):
    async with pretender(b"INFO " + INFO + b"\r\n", b"PONG\r\n" + said) as url:
        try:
            async with connected(BrokerAddress(url), name="a") as link:
                with pytest.raises(BrokerError):
                    await link.ask("x", b"", 0.3)
        except BrokerError:
            pass  # it was hostile at once
    assert "Traceback" not in caplog.text


async def test_a_password_goes_to_nobody_in_the_clear_where_tls_is_asked_for(tmp_path):
    heard = bytearray()

    async def talk(reader, writer):
        writer.write(b"INFO " + INFO + b"\r\n")
        heard.extend(await reader.read(4096))
        writer.transport.abort()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    url = f"tls://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    with pytest.raises(BrokerError, match="does not encrypt"):
        async with connected(address(tmp_path, url), name="a"):
            pass
    server.close()
    assert b"secret" not in heard


async def test_where_nobody_listens_there_is_no_broker(monkeypatch):
    monkeypatch.setattr("agentserver.broker.link.START", 0.6)
    with pytest.raises(BrokerError, match=r"no broker at nats://127\.0\.0\.1:9"):
        async with connected(BrokerAddress("nats://127.0.0.1:9"), name="a"):
            pass
    with pytest.raises(BrokerError):
        async with connected(BrokerAddress("nats://[::1"), name="a"):
            pass


def signed(folder, authority, name):
    """Lines of configuration with which a broker encrypts as this name, and the file of who vouches for it."""
    made = authority.issue_cert(name)
    made.private_key_pem.write_to_path(folder / "key.pem")
    made.cert_chain_pems[0].write_to_path(folder / "cert.pem")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    return f'{USERS}\ntls {{ cert_file: "{folder}/cert.pem", key_file: "{folder}/key.pem" }}'


async def test_a_broker_is_believed_that_the_named_authority_vouches_for(tmp_path):
    more = signed(tmp_path, trustme.CA(), "127.0.0.1")
    async with broker(tmp_path / "n", more=more) as url:
        place = replace(address(tmp_path, url.replace("nats:", "tls:")), ca=tmp_path / "ca.pem")
        async with connected(place, name="a") as link:
            with pytest.raises(SilenceError, match="no listener"):
                await link.ask("nowhere", b"", 5)


@pytest.mark.parametrize("ca", [None, "other.pem"], ids=["the system's", "another's"])
@pytest.mark.parametrize("name", ["127.0.0.1", "broker.invalid"])
async def test_a_broker_that_nobody_trusted_vouches_for_is_not_believed(tmp_path, monkeypatch, ca, name):
    monkeypatch.setattr("agentserver.broker.link.START", 1.0)
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
    async with broker(tmp_path / "n", more=signed(tmp_path, trustme.CA(), name)) as url:
        place = replace(address(tmp_path, url.replace("nats:", "tls:")), ca=ca and tmp_path / ca)
        with pytest.raises(BrokerError, match="CERTIFICATE_VERIFY_FAILED"):
            async with connected(place, name="a"):
                pass


async def test_a_broker_of_another_name_is_not_believed(tmp_path, monkeypatch):
    monkeypatch.setattr("agentserver.broker.link.START", 1.0)
    async with broker(tmp_path / "n", more=signed(tmp_path, trustme.CA(), "broker.invalid")) as url:
        place = replace(address(tmp_path, url.replace("nats:", "tls:")), ca=tmp_path / "ca.pem")
        with pytest.raises(BrokerError, match="IP address mismatch"):
            async with connected(place, name="a"):
                pass


@pytest.mark.parametrize(
    "text", [None, b"", b"no certificate", b"\xff"], ids=["gone", "empty", "words", "bytes"]
)
async def test_a_file_of_no_certificates_is_named(tmp_path, text):
    if text is not None:
        (tmp_path / "ca.pem").write_bytes(text)
    with pytest.raises(BrokerError, match=r"ca\.pem: (is no PEM file|No such file)"):
        async with connected(BrokerAddress("tls://127.0.0.1:9", ca=tmp_path / "ca.pem"), name="a"):
            pass


async def test_a_connection_in_the_clear_is_given_up_where_tls_is_asked_for_and_no_password_is_there(
    tmp_path,
):
    async with broker(tmp_path) as url:
        with pytest.raises(BrokerError, match="does not encrypt"):
            async with connected(BrokerAddress(url.replace("nats:", "tls:")), name="a"):
                pass


async def test_a_broker_that_encrypts_no_more_when_it_comes_again_is_left(tmp_path):
    async with one(
        tmp_path / "n", more=signed(tmp_path, trustme.CA(), "127.0.0.1").removeprefix(USERS)
    ) as node:
        place = BrokerAddress(node.url.replace("nats:", "tls:"), ca=tmp_path / "ca.pem")
        async with connected(place, name="a") as link:
            node.reload("")
            node.kill()
            await node.start()
            async with asyncio.timeout(HANGS):
                assert "does not encrypt" in await link.over


async def test_a_library_that_does_not_keep_its_own_time_is_not_waited_for(monkeypatch):
    monkeypatch.setattr("agentserver.broker.link.LATE", 0.0)
    given_up = []

    class Stuck:
        async def request(self, *_, **__):
            try:
                await asyncio.Event().wait()
            finally:
                given_up.append(True)

    with pytest.raises(SilenceError, match="no answer on there"):
        await Link(Stuck()).ask("there", b"", 0.0)
    await asyncio.sleep(0)
    assert given_up


@pytest.mark.parametrize("error", [NoRespondersError, NoStreamResponseError, ServiceUnavailableError])
def test_nodes_that_have_no_leader_yet_are_silent(error):
    """A server that found its cluster choosing a leader ended."""
    with pytest.raises(SilenceError, match="no listener on the queue"), troubles("the queue"):
        raise error


def test_nodes_of_which_too_few_are_there_yet_are_silent_and_what_is_wrong_is_not():
    """A server that began while the nodes of its cluster were finding each other ended."""
    few = BadRequestError(
        code=400, err_code=10005, description="no suitable peers for placement, peer offline"
    )
    with pytest.raises(SilenceError, match="the queue: no suitable peers"), troubles("the queue"):
        raise few
    with pytest.raises(BrokerError, match="subjects overlap") as met, troubles("the queue"):
        raise BadRequestError(
            code=400, err_code=10065, description="subjects overlap with an existing stream"
        )
    assert not isinstance(met.value, SilenceError)
