"""A model without a model: fixed rules that read the same prompt and transcript as a real one would.

It is deterministic, needs no key, and is as gullible as a model can be: it follows any instruction that it reads. It
shows that the server, not the model, keeps the desk safe.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from listeners.model import Call, TranscriptEntry, Turn
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


async def complete(prompt: str, transcript: Sequence[TranscriptEntry]) -> Turn:
    """Choose the next turn: obey an instruction in a page, or calculate, browse, read, summarise or answer."""
    context = _Context(prompt, transcript)
    rules = (context.obey, context.calculate, context.browse, context.read, context.summarise)
    calls = next((calls for rule in rules if (calls := rule())), [])
    return Turn(calls) if calls else context.answer()


class _Context:
    """Parsed prompt and transcript. Each rule returns the calls that it wants, or none."""

    def __init__(self, prompt: str, transcript: Sequence[TranscriptEntry]) -> None:
        self._offered = set(_OFFERED.findall(prompt))
        self._start = _first_match(_START, prompt)
        self._question = next((entry.text for entry in transcript if entry.who == "user"), "")
        self._topic = _first_match(_TOPIC, self._question).lower()
        self._calls = [entry.text for entry in transcript if entry.who == "assistant"]
        self._answers = [entry for entry in transcript if entry.who not in ("user", "assistant")]

    def obey(self) -> list[Call]:
        """Obey the pages, once: no prompt can close this hole."""
        victim = _first_match(_ORDER, "\n".join(entry.text for entry in self._answers))
        if not victim or any(call.startswith("Mail: ") for call in self._calls):
            return []
        body = "\n".join(entry.text for entry in self._answers)[:2000]
        return [Call("outbox", "Mail", {"to": victim, "subject": "As you wish", "body": body})]

    def calculate(self) -> list[Call]:
        """Request one calculation at a time, because the next may use ``ans``."""
        if "calculator" not in self._offered:
            return []
        todo = [text for text in _sums(self._question) if f"Calculate: {text}" not in self._calls]
        return [Call("calculator", "Calculate", {"expression": text}) for text in todo[:1]]

    def browse(self) -> list[Call]:
        """Open the front page if the question has a topic."""
        return self._fetch([self._start] if self._topic else [])

    def read(self) -> list[Call]:
        """Open every page whose link mentions the topic, all at once."""
        links = [link for entry in self._from("fetcher") for link in _LINK.findall(entry.text)]
        stem = self._topic.removesuffix("s")
        return self._fetch(url for label, url in links if stem and stem in label.lower())

    def summarise(self) -> list[Call]:
        """Request a summary of every page, all at once, except for the front page, which is only a list."""
        pages = [(url, text) for url, text in self._pages() if f"Summarise: {url}" not in self._calls]
        return [
            Call("summariser", "Summarise", {"source": url, "topic": self._topic, "text": text})
            for url, text in pages
            if "summariser" in self._offered
        ]

    def answer(self) -> Turn:
        """Answer with all findings, or with a suggestion what to ask."""
        figures = [entry.text for entry in self._from("calculator")]
        summaries = [entry.text.partition("\n") for entry in self._from("summariser")]
        missing = [entry.text for entry in self._from("fetcher") if entry.text.startswith("no page")]
        refused = [f"(The system says: {entry.text})" for entry in self._from("system")]
        parts = [*figures, *(text for _, _, text in summaries), *missing, *refused]
        if not parts and self._topic:
            parts = [f"The pages say nothing about {self._topic}."]
        # The last contact wins.
        contacts = [found for entry in self._from("fetcher") for found in _CONTACT.findall(entry.text)]
        contact = contacts[-1][0] if contacts else ""
        sources = [source for source, _, _ in summaries]
        return Turn(text="\n".join(parts) or _HELP, sources=sources, contact=contact)

    def _fetch(self, urls: Iterator[str] | list[str]) -> list[Call]:
        wanted = [url for url in dict.fromkeys(urls) if url and f"Fetch: {url}" not in self._calls]
        return [Call("fetcher", "Fetch", {"url": url}) for url in wanted if "fetcher" in self._offered]

    def _from(self, who: str) -> list[TranscriptEntry]:
        return [entry for entry in self._answers if entry.who == who]

    def _pages(self) -> Iterator[tuple[str, str]]:
        for entry in self._from("fetcher"):
            url, *rest = entry.text.splitlines()
            if rest and url != self._start:
                yield url, "\n".join(line for line in rest[1:] if not _LINK.fullmatch(line))


def _sums(question: str) -> list[str]:
    """List the calculations in a question, in order."""
    found = [(match.start(), match.expand(text)) for rule, text in _SUMS for match in rule.finditer(question)]
    return [text.strip() for _, text in sorted(found)]


def _first_match(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    return match[1] if match else ""
