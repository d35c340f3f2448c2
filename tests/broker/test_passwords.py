"""Passwords of the broker's users."""

from __future__ import annotations

import stat

import pytest

from agentserver.broker.address import BrokerError, credentials
from agentserver.broker.passwords import bcrypt, kept


def test_a_password_is_drawn_once_and_only_its_owner_reads_it(tmp_path):
    password = kept(tmp_path / "broker", "calculator", "org/calculator")
    assert kept(tmp_path / "broker", "calculator", "org/calculator") == password
    assert credentials(tmp_path / "broker" / "calculator") == ("org/calculator", password)
    assert stat.S_IMODE((tmp_path / "broker" / "calculator").stat().st_mode) == 0o600
    assert len(password) > 40


def test_a_file_of_somebody_else_is_not_taken(tmp_path):
    kept(tmp_path, "one", "org/one")
    with pytest.raises(BrokerError, match='is of "org/one", and "org/two" is asked for'):
        kept(tmp_path, "one", "org/two")


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "one").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BrokerError):
        kept(tmp_path, "one", "org/one")
    assert not (tmp_path / "elsewhere").exists()


def test_the_same_words_give_the_same_text_and_others_another():
    one = bcrypt("org/one", "secret")
    assert one == bcrypt("org/one", "secret")
    assert one != bcrypt("org/two", "secret")
    assert one != bcrypt("org/one", "Secret")
    assert one.startswith("$2b$10$")
    assert len(one) == 60


@pytest.mark.parametrize(
    "text", ["", "user", "user:", ":password", "a:b\nc:d", "x" * 5000, "-----BEGIN NATS USER JWT-----"]
)
def test_what_is_no_file_of_credentials_is_refused(tmp_path, text):
    (tmp_path / "file").write_text(text)
    with pytest.raises(BrokerError):
        credentials(tmp_path / "file")


def test_bytes_that_are_no_text_are_refused(tmp_path):
    (tmp_path / "file").write_bytes(b"\xff:\xfe")
    with pytest.raises(BrokerError, match="is no text"):
        credentials(tmp_path / "file")
    with pytest.raises(BrokerError, match="No such file"):
        credentials(tmp_path / "none")
