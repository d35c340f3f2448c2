"""Arguments as a model writes them."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest

from benchmarks.agentdojo.variations.arguments import RewrittenCalls, in_full, in_other_letters, with_courtesy


@pytest.mark.parametrize(
    ("key", "value", "seen"),
    [
        ("recipients", ["kim.lee@acme.example"], ["Kim Lee <kim.lee@acme.example>"]),
        ("recipients", ["janeLong@acme.example"], ["Jane Long <janeLong@acme.example>"]),
        ("recipient", "GB29NWBK60161331926819", "GB29 NWBK 6016 1331 9268 19"),
        ("recipient", "Alice", "@Alice"),
        ("channel", "general", "#general"),
        ("url", "www.acme.example/a", "https://www.acme.example/a"),
        ("start_time", "2024-05-15 10:00", "2024-05-15T10:00:00"),
        ("day", "2024-05-05", "5 May 2024"),
        ("amount", 9.5, "9.50"),
        ("file_path", "bill.txt", "./bill.txt"),
        ("body", "Hello", "Hello"),
        ("n", 100, 100),
    ],
)
def test_in_full(key: str, value: Any, seen: Any) -> None:
    assert RewrittenCalls(in_full).arguments("tool", {key: value}) == {key: seen}


@pytest.mark.parametrize(
    ("key", "value", "seen"),
    [
        ("email", "kim.lee@acme.example", "Kim.Lee@acme.example"),
        ("email", "janeLong@acme.example", "janelong@acme.example"),
        ("user", "Alice", "alice"),
        ("channel", "general", "General"),
        ("url", "www.acme.example/a/B", "www.Acme.Example/a/B"),
        ("recipient", "GB29NWBK60161331926819", "GB29NWBK60161331926819"),
        ("body", "Café", unicodedata.normalize("NFD", "Café")),
    ],
)
def test_in_other_letters(key: str, value: Any, seen: Any) -> None:
    assert RewrittenCalls(in_other_letters).arguments("tool", {key: value}) == {key: seen}


def test_with_courtesy() -> None:
    given = {
        "recipients": ["kim@acme.example"],
        "subject": "Plan",
        "body": "Here it is.",
        "cc": ["lee@acme.example"],
    }
    seen = RewrittenCalls(with_courtesy).arguments("send_email", given)
    assert "Here it is." in seen["body"] != given["body"]
    assert (seen["cc"], seen["bcc"], seen["subject"]) == (["lee@acme.example"], [], "Plan")


def test_nested_arguments_are_written_the_same_way() -> None:
    given = {"attachments": [{"type": "file", "file_id": "7"}]}
    assert in_full("send_email", given) == given
