"""The mailer against a real SMTP server on this machine."""

from __future__ import annotations

import socket
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from email import message_from_bytes
from email.headerregistry import Address
from email.policy import default

import anyio.to_thread
import pytest
from aiosmtpd.controller import Controller
from hypothesis import given
from hypothesis import strategies as st

from agentserver import SystemError
from agentserver.contract import Code
from agentserver.tools.mail import MailProblem, MailResult, MailSettings, SendMail, build_message, send
from tests.core.paper import listener
from tests.machine import HANGS
from tests.pump.desk import desk

pytestmark = pytest.mark.anyio

HERE = MailSettings("127.0.0.1", "desk@corp.example", tls="none", seconds=HANGS)


class Sink:
    """Stores submitted mails; refuses recipients of one host, or everything."""

    def __init__(self):
        self.mails = []
        self.closed = False

    async def handle_RCPT(self, server, session, envelope, address, options):
        if address.endswith("@gone.example"):
            return "550 no such mailbox"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        if self.closed:
            return "554 no"
        self.mails.append((envelope.mail_from, list(envelope.rcpt_tos), envelope.content))
        return "250 OK"


@asynccontextmanager
async def post(**more):
    sink = Sink()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    controller = Controller(sink, hostname="127.0.0.1", port=port, ready_timeout=HANGS)
    await anyio.to_thread.run_sync(controller.start)
    settings = replace(HERE, port=port, **more)
    try:
        async with desk(
            (listener("mailer", payloads=(SendMail,)), send), settings=settings, payloads=(MailResult,)
        ) as d:
            sink.port = port
            yield sink, d
    finally:
        await anyio.to_thread.run_sync(controller.stop)


async def test_a_mail_arrives_as_it_was_written():
    async with post() as (sink, d):
        mail = SendMail(["ada@corp.example", "bob@corp.example"], "Gr\u00fc\u00dfe", "One\n.\nTwo \u2603\n")
        assert await d.ask(mail, "mailer") == MailResult(2)
        ((sender, recipients, data),) = sink.mails
        assert (sender, recipients) == ("desk@corp.example", ["ada@corp.example", "bob@corp.example"])
        read = message_from_bytes(data, policy=default)
        assert (read["Subject"], read["From"]) == ("Gr\u00fc\u00dfe", "desk@corp.example")
        assert read["To"] == "ada@corp.example, bob@corp.example"
        assert read.get_content().replace("\r\n", "\n") == "One\n.\nTwo \u2603\n"
        assert read["Message-ID"].endswith("@corp.example>")
        assert read["Date"]


@pytest.mark.parametrize(
    "mail",
    [
        SendMail(["ada@corp.example"], "hi\nBcc: eve@evil.example", "x"),
        SendMail(["ada@corp.example"], "hi\rBcc: eve@evil.example", "x"),
        SendMail(["ada@corp.example"], "hi\u2028Bcc: eve@evil.example", "x"),
        SendMail(["ada@corp.example\nRCPT TO:<eve@evil.example>"], "hi", "x"),
        SendMail(["ada@corp.example, eve@evil.example"], "hi", "x"),
        SendMail(["Ada <ada@corp.example>"], "hi", "x"),
        SendMail(['"eve@evil.example"@corp.example'], "hi", "x"),
        SendMail(["@corp.example"], "hi", "x"),
        SendMail([], "hi", "x"),
        SendMail(["a..b@corp.example"], "hi", "x"),
        SendMail(["ada@corp.example"], "=?utf-8?q?hi=0D=0ABcc:=20eve@evil.example?=", "x"),
        SendMail(["ada@corp.example"], "re ==?utf-8?q?hi=0ABcc:=20eve@evil.example?= x", "x"),
    ],
)
async def test_a_would_be_header_or_second_recipient_is_no_payload(mail):
    async with post() as (sink, d):
        handle = await d.open()
        to = "".join(f"<to>{each}</to>" for each in mail.to)
        space = "urn:agentserver-tools:mail:v1"
        data = f"<SendMail xmlns='{space}'>{to}<subject>{mail.subject}</subject><body>x</body></SendMail>"
        found = d.decode(await handle.ask(data.encode(), "mailer"))
        if isinstance(found, MailResult):  # a line end in markup is white space, of which the header has none
            (mail,) = sink.mails
            assert b"Bcc:" not in [line[:4] for line in mail[2].splitlines()]
            assert mail[1] == ["ada@corp.example"]
        else:
            assert isinstance(found, SystemError)
            assert found.code is Code.VALIDATION
            assert sink.mails == []


async def test_signs_of_encoded_words_apart_are_a_subject():
    async with post() as (sink, d):
        mail = SendMail(["ada@corp.example"], "? = what == that ?=", "x")
        assert await d.ask(mail, "mailer") == MailResult(1)
        assert b"Subject: ? = what == that ?=\r\n" in sink.mails[0][2]


@given(st.text(max_size=80) | st.text("=?utf-8qb_0DAbc: ", max_size=80), st.text(max_size=80))
def test_whatever_the_texts_the_header_has_the_fields_that_the_tool_wrote(subject, body):
    at = datetime(2026, 1, 1, tzinfo=UTC)
    try:
        data = build_message(
            SendMail(["ada@corp.example"], subject, body), Address(addr_spec="d@e.example"), "k", at
        )
        data = data.as_bytes()
    except (ValueError, UnicodeError):
        return
    head = data.partition(b"\r\n\r\n")[0]
    names = [
        line.partition(b":")[0].lower() for line in head.split(b"\r\n") if not line.startswith((b" ", b"\t"))
    ]
    assert sorted(names) == [
        b"content-transfer-encoding", b"content-type", b"date", b"from", b"message-id", b"mime-version", b"subject", b"to",
    ]  # fmt: skip
    assert message_from_bytes(data, policy=default)["To"] == "ada@corp.example"


async def test_recipients_that_the_server_refuses_are_reported():
    async with post() as (sink, d):
        both = SendMail(["ada@corp.example", "x@gone.example"], "hi", "x")
        assert await d.ask(both, "mailer") == MailResult(1, MailProblem.REFUSED)
        assert sink.mails[0][1] == ["ada@corp.example"]
        assert await d.ask(replace(both, to=["x@gone.example"]), "mailer") == MailResult(
            0, MailProblem.REFUSED
        )
        sink.closed = True
        assert await d.ask(replace(both, to=["ada@corp.example"]), "mailer") == MailResult(
            0, MailProblem.REFUSED
        )


async def test_a_server_that_does_not_encrypt_gets_nothing():
    async with post(tls="start") as (sink, d):
        assert await d.ask(SendMail(["ada@corp.example"], "hi", "x"), "mailer") == MailResult(
            0, MailProblem.UNREACHABLE
        )
        assert sink.mails == []


async def test_bounds_and_nobody_there():
    async with post(size=500) as (sink, d):
        found = await d.ask(SendMail(["ada@corp.example"], "hi", "x" * 500), "mailer")
        assert found == MailResult(0, MailProblem.SIZE)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        settings = replace(HERE, port=free.getsockname()[1])
    async with desk(
        (listener("mailer", payloads=(SendMail,)), send), settings=settings, payloads=(MailResult,)
    ) as d:
        assert (
            await d.ask(SendMail(["ada@corp.example"], "hi", "x"), "mailer")
        ).problem is MailProblem.UNREACHABLE
    assert sink.mails == []


def test_settings_that_would_send_a_password_in_the_open_are_refused():
    with pytest.raises(ValueError, match="unencrypted"):
        MailSettings("h", "a@b.example", tls="none", user="u", password="p")
    with pytest.raises(ValueError, match=r"."):
        MailSettings("h", "a@b.example, c@d.example")
    assert "hunter2" not in repr(MailSettings("h", "a@b.example", user="u", password="hunter2"))
