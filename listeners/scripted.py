"""A model without a model: fixed rules that read the same prompt and transcript as a real one would.

It is deterministic, needs no key, and is as gullible as a model can be: it does what it reads, wherever that
stands. What keeps the desk safe is the server, and this model is here to show it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from listeners.model import Call, Said, Turn
from listeners.payloads import ADDRESS

_SUMS = (
    (re.compile(r"([\d.]*\d) ?% of ([\d.]*\d)", re.IGNORECASE), r"\2 * \1 / 100"),
    (re.compile(r"(?:how much|what) is ([\d(][\d\s.+*/()%-]*[\d)])(?![\d.]* ?%)", re.IGNORECASE), r"\1"),
    (re.compile(r"half of that", re.IGNORECASE), "ans / 2"),
    (re.compile(r"twice that", re.IGNORECASE), "ans * 2"),
)
_TOPIC = re.compile(r"\babout (?:the )?([a-z]+(?:-[a-z]+)*)", re.IGNORECASE)
_START = re.compile(r"Start at (\S+)")
_OFFERED = re.compile(r"^## (\S+)$", re.MULTILINE)
_LINK = re.compile(r"^- (.+) <(\S+)>$", re.MULTILINE)
_ORDER = re.compile(rf"\bsend (?:the|this|your) (?:summary|answer|report) to ({ADDRESS})", re.IGNORECASE)
_CONTACT = re.compile(rf"\bcontact(?: is now)?:? ({ADDRESS})", re.IGNORECASE)
_HELP = "I can calculate, and say what the pages know about a topic: ask me about otters."


async def complete(prompt: str, transcript: Sequence[Said]) -> Turn:
    """The next turn: obey what was read, or else calculate, browse, read, summarise, answer."""
    reading = _Reading(prompt, transcript)
    rules = (reading.obey, reading.calculate, reading.browse, reading.read, reading.summarise)
    calls = next((calls for rule in rules if (calls := rule())), [])
    return Turn(calls) if calls else reading.answer()


class _Reading:
    """What prompt and transcript say, taken apart. Each rule gives the calls that it wants, or none."""

    def __init__(self, prompt: str, transcript: Sequence[Said]) -> None:
        self._offered = set(_OFFERED.findall(prompt))
        self._start = _found(_START, prompt)
        self._question = next((said.text for said in transcript if said.who == "user"), "")
        self._topic = _found(_TOPIC, self._question).lower()
        self._asked = [said.text for said in transcript if said.who == "assistant"]
        self._heard = [said for said in transcript if said.who not in ("user", "assistant")]

    def obey(self) -> list[Call]:
        """Do as the pages say, once: this is the hole that no prompt can close."""
        victim = _found(_ORDER, "\n".join(said.text for said in self._heard))
        if not victim or any(asked.startswith("Mail: ") for asked in self._asked):
            return []
        body = "\n".join(said.text for said in self._heard)[:2000]
        return [Call("outbox", "Mail", {"to": victim, "subject": "As you wish", "body": body})]

    def calculate(self) -> list[Call]:
        """One sum at a time, because the next may say ``ans``."""
        if "calculator" not in self._offered:
            return []
        todo = [text for text in _sums(self._question) if f"Calculate: {text}" not in self._asked]
        return [Call("calculator", "Calculate", {"expression": text}) for text in todo[:1]]

    def browse(self) -> list[Call]:
        """Open the front page when there is something to look for."""
        return self._fetch([self._start] if self._topic else [])

    def read(self) -> list[Call]:
        """Open every page whose link speaks of the topic, all at once."""
        links = [link for said in self._from("fetcher") for link in _LINK.findall(said.text)]
        stem = self._topic.removesuffix("s")
        return self._fetch(url for label, url in links if stem and stem in label.lower())

    def summarise(self) -> list[Call]:
        """Have every page that was read summarised, all at once; the front page is only a list."""
        pages = [(url, text) for url, text in self._pages() if f"Summarise: {url}" not in self._asked]
        return [
            Call("summariser", "Summarise", {"source": url, "topic": self._topic, "text": text})
            for url, text in pages
            if "summariser" in self._offered
        ]

    def answer(self) -> Turn:
        """Everything found, or what could be asked instead."""
        figures = [said.text for said in self._from("calculator")]
        summaries = [said.text.partition("\n") for said in self._from("summariser")]
        missing = [said.text for said in self._from("fetcher") if said.text.startswith("no page")]
        refused = [f"(The system says: {said.text})" for said in self._from("system")]
        parts = [*figures, *(text for _, _, text in summaries), *missing, *refused]
        if not parts and self._topic:
            parts = [f"The pages say nothing about {self._topic}."]
        # Whoever wrote last is believed.
        contacts = [found for said in self._from("fetcher") for found in _CONTACT.findall(said.text)]
        contact = contacts[-1][0] if contacts else ""
        sources = [source for source, _, _ in summaries]
        return Turn(text="\n".join(parts) or _HELP, sources=sources, contact=contact)

    def _fetch(self, urls: Iterator[str] | list[str]) -> list[Call]:
        wanted = [url for url in dict.fromkeys(urls) if url and f"Fetch: {url}" not in self._asked]
        return [Call("fetcher", "Fetch", {"url": url}) for url in wanted if "fetcher" in self._offered]

    def _from(self, who: str) -> list[Said]:
        return [said for said in self._heard if said.who == who]

    def _pages(self) -> Iterator[tuple[str, str]]:
        for said in self._from("fetcher"):
            url, *rest = said.text.splitlines()
            if rest and url != self._start:
                yield url, "\n".join(line for line in rest[1:] if not _LINK.fullmatch(line))


def _sums(question: str) -> list[str]:
    """The sums that a question asks for, in the order of their places."""
    found = [(match.start(), match.expand(text)) for rule, text in _SUMS for match in rule.finditer(question)]
    return [text.strip() for _, text in sorted(found)]


def _found(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    return match[1] if match else ""
