"""Batch of a thousand documents: fan-out with a window, retries, and each document processed once.

python batch.py 1000          creates documents
agentserver run               then: @batch documents=1000
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import anyio.to_thread

from agentserver import HandlerMetadata, HandlerResponse, SystemError, invocation, xmlify

OUT = Path(__file__).parent / "out"
WINDOW = 50
"""Documents in progress at once, which bounds the waiting messages."""


@xmlify
@dataclass(frozen=True, slots=True)
class Batch:
    """Request to process all documents up to a number."""

    documents: int


@xmlify
@dataclass(frozen=True, slots=True)
class Report:
    """Totals of a batch."""

    done: int = 0
    words: int = 0
    failed: int = 0


@xmlify
@dataclass(frozen=True, slots=True)
class Count:
    """Request for the word count of one document."""

    document: int


@xmlify
@dataclass(frozen=True, slots=True)
class WordCount:
    """Number of words in one document."""

    words: int


@xmlify
@dataclass(frozen=True, slots=True)
class Sent:
    """Progress of a batch, stored in its thread."""

    documents: int
    next: int


async def spread(payload: Batch | WordCount | SystemError, metadata: HandlerMetadata) -> object:
    """Send out a window of documents, then one for each answer; respond after the last."""
    storage = invocation().storage
    if isinstance(payload, Batch):
        first = min(WINDOW, payload.documents)
        storage.set(Sent(payload.documents, first + 1))
        storage.set(Report())
        return [HandlerResponse(Count(number), "reader") for number in range(1, first + 1)]
    sent, report = storage.get(Sent) or Sent(0, 1), storage.get(Report) or Report()
    if isinstance(payload, WordCount):
        report = replace(report, done=report.done + 1, words=report.words + payload.words)
    else:
        report = replace(report, failed=report.failed + 1)
    storage.set(report)
    if sent.next <= sent.documents:
        storage.set(replace(sent, next=sent.next + 1))
        return HandlerResponse(Count(sent.next), "reader")
    if report.done + report.failed < sent.documents:
        return None
    return HandlerResponse.respond(report)


async def read(payload: Count, metadata: HandlerMetadata) -> HandlerResponse:
    """Count the words of a document, and store their number in a file."""
    await anyio.sleep(0.01)  # reading takes a while
    return HandlerResponse.respond(WordCount(await anyio.to_thread.run_sync(_read, payload.document)))


def _read(number: int) -> int:
    if number % 50 == 0 and _first_time(number):
        raise ConnectionError("the shelf is busy")  # retried as `retries` says
    words = len((OUT / "documents" / f"{number:04}.txt").read_text("utf-8").split())
    _keep(OUT / "counts" / f"{number:04}.txt", str(words))
    return words


def _first_time(number: int) -> bool:
    """Check that this is the first attempt at a document."""
    try:
        (OUT / "tried" / str(number)).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _keep(path: Path, text: str) -> None:
    """Write a file atomically and once: a document that is read again after a crash keeps its first count."""
    whole = path.with_suffix(f".{os.getpid()}")
    whole.write_text(text, "utf-8")
    try:
        os.link(whole, path)
    except FileExistsError:
        with (OUT / "again.txt").open("a", encoding="utf-8") as file:
            file.write(f"{path.name}\n")
    finally:
        whole.unlink()


def make(documents: int) -> None:
    """Create the documents, and the folders for the results."""
    for folder in ("documents", "counts", "tried"):
        (OUT / folder).mkdir(parents=True, exist_ok=True)
    for number in range(1, documents + 1):
        (OUT / "documents" / f"{number:04}.txt").write_text("word " * (number % 7 + 1), "utf-8")


if __name__ == "__main__":
    make(int(sys.argv[1]))
