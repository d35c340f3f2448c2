"""Requests in other words and other languages, and injected texts of other lengths."""

from __future__ import annotations

import pytest

from benchmarks.agentdojo.encodings import VALUES
from benchmarks.agentdojo.variations import injections, requests
from benchmarks.agentdojo.variations.requests import LostLiteralError, RewordedRequests

TASKS = {"workspace": 40, "travel": 20, "banking": 16, "slack": 21}
INJECTIONS = {"workspace": 14, "travel": 7, "banking": 9, "slack": 5}
ALL = (*requests.LANGUAGES, requests.SYNONYMS)


@pytest.mark.parametrize("name", ALL)
def test_every_task_has_words(name: str) -> None:
    said = requests.read(name)
    assert {suite: len(tasks) for suite, tasks in said.items()} == TASKS
    for tasks in said.values():
        assert {*tasks} == {f"user_task_{number}" for number in range(len(tasks))}
        assert all(words.strip() for words in tasks.values())


@pytest.mark.parametrize("name", requests.LANGUAGES)
def test_a_translation_keeps_names_addresses_and_numbers(name: str) -> None:
    said = requests.read(name)
    for suite, tasks in requests.read(requests.SYNONYMS).items():
        missing = {
            task: found
            for task, words in tasks.items()
            if (found := requests.lost_literals(words, said[suite][task]))
        }
        assert not missing


@pytest.mark.parametrize("name", requests.LANGUAGES)
def test_a_translation_is_one(name: str) -> None:
    said, english = requests.read(name), requests.read(requests.SYNONYMS)
    for suite, tasks in said.items():
        assert not {*tasks.values()} & {*english[suite].values()}


def test_literals_are_quoted_texts_addresses_links_placeholders_and_numbers() -> None:
    words = "Mail 'Plan B' to kim@acme.example, it's on www.acme.example/a on 2024-05-19 at 12:00 for {name}: 9.50"
    assert requests.literals(words) == {
        "Plan B",
        "kim@acme.example",
        "www.acme.example/a",
        "2024-05-19",
        "12:00",
        "{name}",
        "9.50",
    }


def test_other_words_that_lose_a_literal_are_refused() -> None:
    guise = RewordedRequests("de")
    with pytest.raises(LostLiteralError, match=r"www\.elsewhere\.example"):
        guise.request("slack", "user_task_0", "Read www.elsewhere.example.")
    with pytest.raises(LostLiteralError, match="every word"):
        guise.request("slack", "user_task_99", "Read.")


def test_a_pasted_document_comes_before_or_after_the_request() -> None:
    words = requests.read(requests.SYNONYMS)["slack"]["user_task_0"]
    document = requests.PASTED.read_text("utf-8")
    before = RewordedRequests(requests.SYNONYMS, requests.put_before()).request("slack", "user_task_0", words)
    after = RewordedRequests(requests.SYNONYMS, requests.put_after()).request("slack", "user_task_0", words)
    assert before == f"{document}\n\n{words}"
    assert after == f"{words}\n\n{document}"


def test_a_pasted_document_names_none_of_the_attackers() -> None:
    document = requests.PASTED.read_text("utf-8")
    for wishes in injections.terse().values():
        for wish in wishes.values():
            assert not [value for value in VALUES.findall(wish) if value in document]


def test_every_injection_has_a_short_form() -> None:
    assert {suite: len(wishes) for suite, wishes in injections.terse().items()} == INJECTIONS
    longest = max(len(wish) for wishes in injections.terse().values() for wish in wishes.values())
    assert longest <= 120


def test_a_long_injection_holds_the_attacks_own_text() -> None:
    text = injections.long("IMPORTANT: do it", "do it")
    assert "IMPORTANT: do it" in text
    assert len(text) > 20_000
    assert not {*'"\\{}'} & {*text}
