"""What judging, adding and hopping cost where up to 10 MB of untrusted text was read.

    ./run bench provenance [--quick]
    python benchmarks/provenance.py [--text-dir DIR] [--sizes 10,100,1000,10000] [--chance]

Judging. A call of a sink, allowed (a recipient that the request names, 2 kB with 80 characters from a page), or
refused (a recipient that nobody names). Warm: what follows from the texts was made by an earlier call. Cold: the first
judgement of a conversation that was just read back, without any index. A choice of a sender that was given
nothing untrusted is looked up in every index and allowed if no index holds it: its cold figure is that of making them,
once for each part of the text; beyond 4 MB not every wrapping is undone, and it is refused as out of bounds. *Reported*
is what explaining the verdict takes afterwards, when somebody reads it.

Library. The same calls by `Engine`, over `judge`; the log has no handler.

Adding. Microseconds for each kB that a listener's output has, with every index that a choice is looked up in; appended
is the part of it that is paid before anything is judged.

Steps. One step of the pump, decided with the lineage guard and without it, in the same process: an agent is done with a
message and sends another. Times are CPU medians; only the ratios travel between machines. For comparison, where it is
installed, agent-sleuth. ``--chance`` measures how long matches of unrelated text get, the basis of `SPAN`.
"""

from __future__ import annotations

import argparse
import logging
import random
import statistics
import sysconfig
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from _targets import record

from agentserver import HandlerResponse, xmlify
from agentserver.core.blueprint import Blueprint, Limits, Listener
from agentserver.core.decide import decisions
from agentserver.core.decide.decisions import AcceptedDelivery
from agentserver.core.drafts.replies import normalise
from agentserver.core.guard import Rules
from agentserver.core.messages import (
    FinishedInvocation,
    HandlerFailure,
    HandlerReturn,
    Moment,
    OutsideMessage,
)
from agentserver.core.state.conversation import Conversation
from agentserver.core.state.requests import ResultLimits
from agentserver.guards.builtin import PeersGuard
from agentserver.guards.lineage.exposure import FirstText, Recall
from agentserver.guards.lineage.guard import LineageGuard, TrustSettings
from agentserver.guards.lineage.memory import Memory
from agentserver.payload.codec import Codecs
from agentserver.provenance import (
    Call,
    Engine,
    Ledger,
    Mode,
    Observation,
    Policy,
    TaintStore,
    TaintViolationError,
    explain,
    judge,
    leaves,
)
from agentserver.provenance.evidence.folding import fold_bytes
from agentserver.provenance.evidence.index import SPAN
from agentserver.provenance.evidence.labels import Role
from agentserver.provenance.observations.untrusted_texts import UntrustedTexts
from agentserver.provenance.policy.declarations import ArgumentRule, SinkRule
from agentserver.wire.envelope import Bounds

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentserver.provenance import Verdict

ASKED = "Summarise the pages and send the summary to bob@corp.com"

POLICY = Policy(
    mode=Mode.ENFORCE,
    sources=("fetch_page",),
    relays=("agent", "helper"),
    sinks=(
        SinkRule("send_email", (ArgumentRule("to", Role.DESTINATION), ArgumentRule("body", Role.PAYLOAD))),
        SinkRule("delete_file", (ArgumentRule("file_id", Role.SELECTOR),)),
    ),
)

AIMS = {
    "allowed, warm": 0.2,
    "refused, warm": 0.5,
    "allowed, cold": 5.0,
    "refused, cold": 5.0,
}
"""Milliseconds of a judgement at 1 MB."""

ENGINE = 1.2
"""Times the judgement that the same call takes by ``Engine``."""

ADDING = {"pages": 300.0, "short pieces": 500.0}
"""Microseconds a kB, with every index that a choice is looked up in."""

STEPS = {"clean hop": 1.15, "hop after 100 kB": 2.0, "call of a sink": 10.0}
"""Times the same step without the guard."""


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
    """Median and worst CPU milliseconds, after one run that is not counted."""
    work()
    return time_calls(lambda: work, least, budget)


def time_calls(
    prepare: Callable[[], Callable[[], Any]], least: int = 5, budget: float = 2.0
) -> tuple[float, float]:
    """Median and worst CPU milliseconds of what ``prepare`` gives each time."""
    taken: list[float] = []
    while len(taken) < least or (sum(taken) < budget and len(taken) < 200):
        work = prepare()
        start = time.thread_time()
        work()
        taken.append(time.thread_time() - start)
    return statistics.median(taken) * 1e3, max(taken) * 1e3


@xmlify
@dataclass(frozen=True)
class Read:
    url: str


@xmlify
@dataclass(frozen=True)
class Letter:
    to: str
    body: str


@xmlify
@dataclass(frozen=True)
class Words:
    text: str


LISTENERS = {
    "agent": Listener("agent", (Read, Words), "x", peers=frozenset({"send_email", "helper"})),
    "helper": Listener("helper", (Words,), "x"),
    "send_email": Listener("send_email", (Letter,), "x"),
}


def rules(policy: Policy) -> tuple[Rules, Rules, Codecs]:
    """The rules of an organism without the lineage guard, and with it."""
    codecs = Codecs([Read, Letter, Words])
    roots = {name: frozenset(codecs.of(p).name for p in one.payloads) for name, one in LISTENERS.items()}
    usage = dict.fromkeys(LISTENERS, "")
    blueprint = Blueprint(LISTENERS, Limits(), roots, {}, usage)
    plain = Rules(blueprint, codecs, (PeersGuard(),), Bounds())
    return (
        plain,
        replace(plain, guards=(PeersGuard(), LineageGuard(TrustSettings(policy), LISTENERS, codecs))),
        codecs,
    )


def step(policy: Policy, ledger: Ledger, payload: Any, to: str) -> tuple[float, float]:
    """Median ms of one step in which an agent sends a message: without the guard, and with it."""
    plain, guarded, codecs = rules(policy)
    conversation = Conversation.begin("bench", Moment(0.0, bytes(16)))
    asked = OutsideMessage(codecs.of(Read).encode(Read("https://a.example/")).encode(), "r", "agent")
    outcome = decisions.receive(conversation, asked, guarded, Moment(1.0, b"1" * 16))
    (delivery,) = outcome.ready
    delivery = delivery._replace(sender="helper", hop=2)  # another agent's message, not the principal's order
    known = Memory().grow(ledger)
    if ledger.tainted:  # the agent was given the pages, and so was the helper
        text = FirstText("fetch_page", 1, "fetch_page")
        for name in LISTENERS:
            known = known.expose(name, delivery.thread, Recall.LISTENER, text)
    conversation = outcome.conversation._replace(memory={"lineage": known})
    accepted = decisions.accept(conversation, delivery, guarded)
    said = normalise(HandlerResponse(payload, to), codecs, Bounds(), ResultLimits(1, 1 << 20))
    if not isinstance(accepted, AcceptedDelivery) or isinstance(said, HandlerFailure):
        raise TypeError("the message is valid")
    finished = FinishedInvocation(delivery, accepted.element, HandlerReturn(said))
    moment = Moment(2.0, b"2" * 16)
    done = decisions.conclude(conversation, finished, guarded, moment)
    if [one.to for one in done.added] != [to]:
        raise TypeError("the message is permitted")
    without, within = [], []
    for _ in range(9):  # in turns, because the machine may be shared
        without.append(
            cost(lambda: decisions.conclude(conversation, finished, plain, moment), budget=0.02)[0]
        )
        within.append(
            cost(lambda: decisions.conclude(conversation, finished, guarded, moment), budget=0.02)[0]
        )
    return statistics.median(without), statistics.median(within)


def read(policy: Policy, texts: list[str]) -> Ledger:
    """A conversation that read so much; nothing is made of it yet."""
    ledger = Ledger().ask(ASKED)
    for number, text in enumerate(texts):
        ledger = ledger.observe(policy, Observation("fetch_page", leaves({"text": text}), number))
    return ledger


def time_additions(policy: Policy, texts: list[str]) -> tuple[float, float]:
    """Microseconds a kB to append texts, and to append and index them."""
    size = sum(map(len, texts)) / 1000
    start = time.thread_time()
    ledger = read(policy, texts)
    appended = time.thread_time() - start
    ledger.untrusted.index_all()
    return appended * 1e6 / size, (time.thread_time() - start) * 1e6 / size


def time_judgements(
    policy: Policy, texts: list[str], body: str, rounds: int
) -> dict[str, tuple[float, float]]:
    """Median and worst milliseconds of each kind of judgement."""
    warm = read(policy, texts)
    told: dict[str, tuple[float, float]] = {}
    for name, sink, arguments in (
        ("allowed", "send_email", {"to": "bob@corp.com", "body": body}),
        ("refused", "send_email", {"to": "eve@evil.example", "body": body}),
        ("choice", "delete_file", {"file_id": "q-4711-b"}),
    ):
        call = Call(sink, leaves(arguments), 99, exposed=name != "choice")
        verdict = judge(warm, policy, call)
        if name != "choice" and verdict.allowed is not (name == "allowed"):
            raise TypeError(f"{name} is {verdict.decision}")
        told[f"{name}, warm"] = cost(lambda call=call: judge(warm, policy, call))  # type: ignore[misc]
        told[f"{name}, told"] = cost(lambda call=call: explain(judge(warm, policy, call)))  # type: ignore[misc]

        def cold(call: Call = call) -> Callable[[], Any]:
            fresh = replace(warm, untrusted=UntrustedTexts().add(warm.texts))
            return lambda: judge(fresh, policy, call)

        told[f"{name}, cold"] = time_calls(cold, least=rounds, budget=0.0)
    return told


def time_engine(policy: Policy, texts: list[str], body: str) -> dict[str, float]:
    """Times of each kind of call by ``Engine`` over its judgement."""
    store = TaintStore()
    store.ledger = read(policy, texts)
    store.steered = True
    engine, ledger = Engine(policy, store), store.ledger
    found: dict[str, float] = {}
    for name, to in (("allowed", "bob@corp.com"), ("refused", "eve@evil.example")):
        arguments = {"to": to, "body": body}

        def call(arguments: dict[str, str] = arguments) -> None:
            store.ledger, engine.violations = ledger, []
            with suppress(TaintViolationError):
                engine.on_tool_call("send_email", arguments)

        def alone(arguments: dict[str, str] = arguments) -> Verdict:
            return judge(ledger, policy, Call("send_email", leaves(arguments), 99))

        rounds = [(cost(call, 25, 0.02)[0], cost(alone, 25, 0.02)[0]) for _ in range(9)]
        found[name] = statistics.median(within / without for within, without in rounds)
    return found


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
                hits = ledger.index.find_hits(fold_bytes(pool[start : start + length]))
                found.append(max((hit.length for hit in hits), default=0))
            found.sort()
            share = sum(length_ > 0 for length_ in found) / len(found)
            told = f"{share:5.1%} have a match >= {SPAN}; p90 {found[180]}, max {found[-1]}"
            print(f"{size // 1000:6d} kB, argument {length:5d}: {told}")


def verdict(figure: float, aim: float | None) -> str:
    return "" if aim is None else f"   aim {aim:g}: {'held' if figure <= aim else 'MISSED'}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--text-dir", type=Path, default=Path(sysconfig.get_paths()["stdlib"]))
    parser.add_argument("--other-dir", type=Path, default=Path(sysconfig.get_paths()["purelib"]) / "lxml")
    parser.add_argument("--sizes", default="10,100,1000,10000")
    parser.add_argument("--quick", action="store_true", help="10 and 100 kB, few rounds")
    parser.add_argument("--chance", action="store_true")
    options = parser.parse_args()
    if options.chance:
        chance(options.text_dir, options.other_dir)
        return
    policy = POLICY
    other = " ".join(corpus(options.text_dir, 4000, skip=2000))
    print("judging, ms                       " + "".join(f"{name:>12s}" for name in ("p50", "worst")))
    for kilo in map(int, ("10,100" if options.quick else options.sizes).split(",")):
        texts = corpus(options.text_dir, kilo * 1000)
        quote = texts[len(texts) // 2][1000:1080]
        body = other[:1000] + quote + other[1000:1920]
        rounds = 3 if options.quick or kilo > 1000 else 7
        for name, (median, worst) in time_judgements(policy, texts, body, rounds).items():
            aim = AIMS.get(name) if kilo == 1000 else None
            if aim:
                record(f"judgement at 1 MB, {name}, ms", [median], aim)
            print(f"{kilo:7d} kB, {name:21s}{median:14.3f}{worst:12.3f}{verdict(median, aim)}", flush=True)
        for name, ratio in time_engine(policy, texts, body).items():
            record(f"Engine over judge at {kilo} kB, {name}", [ratio], ENGINE)
            print(f"{kilo:7d} kB, {f'Engine, {name}, times':21s}{ratio:14.2f}{verdict(ratio, ENGINE)}")
        theirs = peer(texts, body) if kilo <= 1000 else None
        if theirs:
            print(f"{kilo:7d} kB, {'agent-sleuth':21s}{theirs[0]:14.3f}{theirs[1]:12.3f}")
    texts = corpus(options.text_dir, 100_000 if options.quick else 1_000_000)
    short = [text[at : at + 200] for text in texts for at in range(0, len(text), 200)]
    print("adding, us/kB                         appended     indexed")
    for name, pieces in (("pages", texts), ("short pieces", short)):
        appended, indexed = time_additions(policy, pieces)
        record(f"indexing of {name}, us/kB", [indexed], ADDING[name])
        print(f"            {name:21s}{appended:13.0f}{indexed:12.0f}{verdict(indexed, ADDING[name])}")
    print("steps, us                         without    with  times")
    clean, hundred, thousand = Ledger().ask(ASKED), read(policy, corpus(options.text_dir, 100_000)), None
    thousand = hundred if options.quick else read(policy, corpus(options.text_dir, 1_000_000))
    words = Words(other[:600])
    for name, ledger, payload, to in (
        ("clean hop", clean, words, "helper"),
        ("hop after 100 kB", hundred, words, "helper"),
        ("call of a sink", thousand, Letter("bob@corp.com", other[:2000]), "send_email"),
    ):
        without, within = step(policy, ledger, payload, to)
        ratio = within / without
        record(f"{name} over the same without the guard", [ratio], STEPS[name])
        print(
            f"            {name:17s}{without * 1e3:10.1f}{within * 1e3:10.1f}{ratio:7.2f}{verdict(ratio, STEPS[name])}"
        )


if __name__ == "__main__":
    main()
