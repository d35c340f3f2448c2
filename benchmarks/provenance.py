"""What judging one sink call costs against 10 kB to 10 MB of untrusted text.

    python benchmarks/provenance.py [--text-dir DIR] [--sizes 10,100,1000,10000] [--chance]

Beside it, in the same run: a plain hop (parsing and writing one 600-byte envelope with lxml), agent-sleuth, and the
pump's own step: an agent is done with a message and sends 2 kB to a sink, decided with the lineage guard and without.
Times are CPU medians; only the ratios travel between machines. ``--chance`` measures how long matches of unrelated
text get, which is what `SPAN` rests on.
"""

from __future__ import annotations

import argparse
import logging
import random
import statistics
import sysconfig
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lxml import etree

from agentserver import HandlerResponse, xmlify
from agentserver.core.blueprint import Blueprint, Limits, Listener
from agentserver.core.decide import decisions
from agentserver.core.decide.decisions import Accepted
from agentserver.core.drafts.replies import normalise
from agentserver.core.guard import Rules
from agentserver.core.messages import Failed, Finished, Moment, Outside, Returned
from agentserver.core.state.budget import Room
from agentserver.core.state.conversation import Conversation
from agentserver.guards.lineage.guard import LineageGuard, Trusted
from agentserver.guards.lineage.memory import Memory
from agentserver.guards.peers import PeersGuard
from agentserver.payload.codec import Codecs
from agentserver.provenance import Call, Ledger, Mode, Observation, Policy, judge, leaves
from agentserver.provenance.evidence.folding import fold_bytes
from agentserver.provenance.evidence.index import SPAN
from agentserver.wire.envelope import Bounds

if TYPE_CHECKING:
    from collections.abc import Callable

ENVELOPE = f"<m><from>a</from><to>b</to><thread>{'x' * 36}</thread><p>{'word ' * 100}</p></m>".encode()


def corpus(folder: Path, want: int, skip: int = 0) -> list[str]:
    """Texts of at most 8 kB, in a fixed order."""
    files = sorted(path for kind in ("*.rst", "*.md", "*.txt", "*.py") for path in folder.rglob(kind))
    random.Random(3).shuffle(files)
    texts: list[str] = []
    size = 0
    for path in files[skip:]:
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        for start in range(0, min(len(text), 200_000), 8000):
            piece = text[start : start + 8000][: want - size]
            texts.append(piece)
            size += len(piece)
            if size >= want:
                return texts
    return texts


def cost(work: Callable[[], Any], least: int = 5, budget: float = 2.0) -> tuple[float, float]:
    """Median and worst CPU milliseconds."""
    taken: list[float] = []
    while len(taken) < least or (sum(taken) < budget and len(taken) < 50):
        start = time.thread_time()
        work()
        taken.append(time.thread_time() - start)
    return statistics.median(taken) * 1e3, max(taken) * 1e3


def hop() -> bytes:
    return etree.tostring(etree.fromstring(ENVELOPE))


@xmlify
@dataclass(frozen=True)
class Read:
    url: str


@xmlify
@dataclass(frozen=True)
class Letter:
    to: str
    body: str


def step(policy: Policy, ledger: Ledger, body: str) -> tuple[float, float]:
    """Median ms of one step of a conversation that sends to a sink: without the guard, and with it."""
    listeners = {
        "agent": Listener("agent", (Read,), "x", peers=frozenset({"send_email"})),
        "send_email": Listener("send_email", (Letter,), "x"),
    }
    codecs = Codecs([Read, Letter])
    roots = {name: frozenset(codecs.of(p).name for p in one.payloads) for name, one in listeners.items()}
    usage = dict.fromkeys(listeners, "")
    plain = Rules(
        Blueprint(listeners, Limits(), roots, frozenset(), usage), codecs, (PeersGuard(),), Bounds()
    )
    guarded = replace(plain, guards=(PeersGuard(), LineageGuard(Trusted(policy), listeners, codecs)))
    conversation = Conversation.opened("bench", Moment(0.0, bytes(16)))
    asked = Outside(codecs.of(Read).encode(Read("https://a.example/")).encode(), "r", "agent")
    outcome = decisions.receive(conversation, asked, guarded, Moment(1.0, b"1" * 16))
    (delivery,) = outcome.ready
    conversation = outcome.conversation._replace(memory={"lineage": Memory(ledger)})
    accepted = decisions.accept(conversation, delivery, guarded)
    said = normalise(
        HandlerResponse(Letter("bob@corp.com", body), "send_email"), codecs, Bounds(), Room(1, 1 << 20)
    )
    if not isinstance(accepted, Accepted) or isinstance(said, Failed):
        raise TypeError("the message is valid")
    finished = Finished(delivery, accepted.element, Returned(said))
    moment = Moment(2.0, b"2" * 16)
    without, _ = cost(lambda: decisions.conclude(conversation, finished, plain, moment), least=50)
    done = decisions.conclude(conversation, finished, guarded, moment)
    if [one.to for one in done.added] != ["send_email"]:
        raise TypeError("the letter is permitted")
    within, _ = cost(lambda: decisions.conclude(conversation, finished, guarded, moment))
    return without, within


def measure(texts: list[str], body: str, policy: Policy) -> tuple[float, float, float, Ledger, float]:
    """Build µs per kB, judge median and worst ms, the ledger, resident index bytes per character."""
    size = sum(map(len, texts))
    ledger = Ledger().ask("Summarise the pages and send the summary to bob@corp.com")
    start = time.thread_time()
    for number, text in enumerate(texts):
        ledger = ledger.observe(policy, Observation("fetch_page", leaves({"text": text}), number))
    build = (time.thread_time() - start) * 1e9 / size
    call = Call("send_email", leaves({"to": "bob@corp.com", "body": body}), 99)
    median, worst = cost(lambda: judge(ledger, policy, call))
    return build, median, worst, ledger, (ledger.index.nbytes + ledger.table.nbytes) / size


def peer(texts: list[str], body: str) -> tuple[float, float] | None:
    """The same question to agent-sleuth, where it is installed."""
    try:
        from agent_sleuth import Sleuth  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        return None
    logging.disable(logging.CRITICAL)
    sleuth = Sleuth(untrusted=["fetch_page"], consequential=["send_email"], mode="audit")
    for text in texts:
        sleuth.engine.on_tool_result("fetch_page", text)
    args = {"to": "eve@evil.example", "body": body}
    return cost(lambda: sleuth.engine.on_tool_call("send_email", args), least=3, budget=1.0)


def chance(folder: Path, other: Path) -> None:
    """How long the longest match of unrelated texts is."""
    policy = Policy(mode=Mode.AUDIT)
    pool = " ".join(corpus(other, 400_000))
    rng = random.Random(9)
    for size in (100_000, 1_000_000, 10_000_000):
        ledger = Ledger()
        for number, text in enumerate(corpus(folder, size)):
            ledger = ledger.observe(policy, Observation("fetch_page", leaves({"text": text}), number))
        for length in (200, 2000):
            found = []
            for _ in range(200):
                start = rng.randrange(len(pool) - length)
                hits = ledger.index.hits(fold_bytes(pool[start : start + length]))
                found.append(max((hit.length for hit in hits), default=0))
            found.sort()
            share = sum(length_ > 0 for length_ in found) / len(found)
            told = f"{share:5.1%} have a match >= {SPAN}; p90 {found[180]}, max {found[-1]}"
            print(f"{size // 1000:6d} kB, argument {length:5d}: {told}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--text-dir", type=Path, default=Path(sysconfig.get_paths()["stdlib"]))
    parser.add_argument("--other-dir", type=Path, default=Path(sysconfig.get_paths()["purelib"]) / "lxml")
    parser.add_argument("--sizes", default="10,100,1000,10000")
    parser.add_argument("--chance", action="store_true")
    options = parser.parse_args()
    if options.chance:
        chance(options.text_dir, options.other_dir)
        return
    policy = Policy(mode=Mode.ENFORCE)
    floor, _ = cost(hop, least=200)
    print(f"plain hop {floor * 1e3:.0f} us")
    head = f"{'untrusted':>10s} {'observe us/kB':>14s} {'B/char':>7s} {'judge 2 kB ms':>14s} {'worst':>7s}"
    print(
        head + f" {'x hop':>7s} {'step ms':>8s} {'x plain step':>13s} {'agent-sleuth ms':>16s} {'x ours':>7s}"
    )
    for kilo in map(int, options.sizes.split(",")):
        texts = corpus(options.text_dir, kilo * 1000)
        other = " ".join(corpus(options.text_dir, 4000, skip=2000))
        quote = texts[len(texts) // 2][1000:1080]
        body = other[:1000] + quote + other[1000:1920]
        build, median, worst, ledger, weight = measure(texts, body, policy)
        line = f"{kilo:7d} kB {build:14.0f} {weight:7.1f} {median:14.2f} {worst:7.2f} {median / floor:7.0f}"
        without, within = step(policy, ledger, body)
        line += f" {within:8.2f} {within / without:13.0f}"
        theirs = peer(texts, body) if kilo <= 1000 else None
        print(line + (f" {theirs[0]:16.1f} {theirs[0] / median:7.1f}" if theirs else ""), flush=True)


if __name__ == "__main__":
    main()
