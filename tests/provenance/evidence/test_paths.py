from __future__ import annotations

import pytest

from agentserver.provenance.evidence.labels import (
    covers,
    extract_argument_name,
    means,
    split_name,
    strip_indices,
)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("sendMail_to.url-2", ("send", "mail", "to", "url", "2")),
        ("HTTPServer", ("http", "server")),
        ("t01", ("t", "01")),
        ("", ()),
        ("---", ()),
    ],
)
def test_the_words_of_a_name(name: str, words: tuple[str, ...]) -> None:
    assert split_name(name) == words


@pytest.mark.parametrize(
    ("entry", "listener", "covered", "meant"),
    [
        ("send", "send", True, True),
        ("send", "send_email", True, False),
        ("send", "sendEmail", True, False),
        ("send", "sender", False, False),
        ("send", "resend", False, False),
        ("send_*", "send_email", True, True),
        ("send_*", "resend_email", False, False),
        ("*", "t01", True, True),
        ("", "t01", False, False),
        ("-", "t01", False, False),
    ],
)
def test_an_entry_covers_a_prefix_and_means_only_its_text(
    entry: str, listener: str, covered: bool, meant: bool
) -> None:
    """What makes stricter is taken broadly; what loosens is not."""
    assert covers(entry, listener) is covered
    assert means(entry, listener) is meant


@pytest.mark.parametrize(
    ("path", "plain", "argument"),
    [
        ("items[3].to[0]", "items.to", "items"),
        ("[3].sender", "sender", "sender"),
        ("to", "to", "to"),
        ("", "", ""),
        ("a.b.c", "a.b.c", "a"),
        ("a{}", "a{}", "a{}"),
    ],
)
def test_a_path_without_indices_and_its_argument(path: str, plain: str, argument: str) -> None:
    assert strip_indices(path) == plain
    assert extract_argument_name(path) == argument
