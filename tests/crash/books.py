"""What must be true of a journal, whatever happened to the process that wrote it."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field

from agentserver.core import receipts
from agentserver.core.encoding import decision_codec
from agentserver.core.encoding.snapshot import take
from agentserver.core.messages import Done, OutsideMessage, RejectedMessage, Reply
from agentserver.core.records.audit import Event
from agentserver.engines.journal.reader import Reader
from agentserver.engines.journal.retention import find_broken_link
from agentserver.engines.journal.rows import DeliveryEnd
from agentserver.engines.sqlite.file import open_reading
from agentserver.history.replay import replay
from tests.crash.organism import SENDER, SHOP, unheard
from tests.engines.endings import endings as endings_of


@dataclass
class Told:
    """What the process said before it died."""

    accepted: set = field(default_factory=set)
    replies: list = field(default_factory=list)
    ends: list = field(default_factory=list)
    kept: dict = field(default_factory=dict)
    ran: Counter = field(default_factory=Counter)
    decided: Counter = field(default_factory=Counter)
    closed: set = field(default_factory=set)
    rest: bool = False

    def sources(self, requests):
        """Reports about requests, for finding one that is lost."""
        replied = {request for request, _ in self.replies}
        ended = {request for request, _ in self.ends}
        own = {request: key for key, request in self.kept.items()}
        return [(one, one in replied, one in ended, own.get(one)) for one in sorted(requests)]

    def hear(self, text):
        for line in text.split("\n")[:-1]:
            match line.split():
                case ["accepted", request]:
                    self.accepted.add(request)
                case ["reply", request, flag]:
                    self.replies.append((request, flag == "1"))
                case ["ended", request, flag]:
                    self.ends.append((request, flag == "1"))
                case ["kept", own, request]:
                    assert self.kept.setdefault(own, request) == request, "an id is of one request for ever"
                case ["ran", delivery]:
                    self.ran[delivery] += 1
                case ["decided", delivery]:
                    self.decided[delivery] += 1
                case ["closed", key]:
                    self.closed.add(key)
                case ["rest"]:
                    self.rest = True


def check(path, told, *, at_rest, shop=SHOP, seen=True, diaries=None):
    """Check the books; gives figures.

    ``seen`` where each call of a handler was reported; ``diaries`` of the senders by their principals, if there is more
    than the one in the journal's folder.
    """
    diaries = {SENDER: path.with_suffix(".diary")} if diaries is None else diaries
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
    with closing(open_reading(path)) as connection:
        reader = Reader(connection, shop.guards)
        summaries = list(reader.conversations())
        requests, ended, left, endings, handled, answered = set(), set(), Counter(), {}, set(), set()
        labelled, keys = 0, {}
        for summary in summaries:
            story = reader.recorded_conversation(summary.id)
            assert find_broken_link(story) is None
            assert replay(story, shop) is None
            check_steps(story, summary, requests, ended, left, handled)
            check_answers(story, answered)
            collect_keys(story, keys, shop)
            endings.update(endings_of(connection, summary.id))
            check_tree(reader, summary, at_rest=at_rest)
            labelled += check_labels(reader, story, summary, shop)
    lost = told.accepted - requests
    assert not lost, f"an accepted message is in the journal: {told.sources(lost)}"
    check_deliveries(endings, handled, told if seen else None, at_rest=at_rest)
    check_replies(told, left)
    assert max(Counter(request for request, again in told.ends if not again).values(), default=0) <= 1
    keyed = check_keys(diaries, told, keys, requests, ended, at_rest=at_rest)
    assert set(told.decided) <= answered, "an answer that was told is on record"
    assert set(told.decided.values()) <= {1}, "and was spent once"
    if at_rest:
        assert requests == ended, "every accepted message came to rest"
    again = sum(1 for count in told.ran.values() if count > 1)
    twice = sum(flag for _, flag in told.replies)
    return {
        "accepted": len(told.accepted),
        "ran again": again,
        "marked again": twice,
        "under an id": keyed,
    } | {
        "answered": len(answered),
        "labelled": labelled,
        "requests": len(requests),
        "steps": sum(s.steps for s in summaries),
        "deliveries": len(endings),
    }


def check_steps(story, summary, requests, ended, left, handled):
    assert [step.version for step in story.steps] == list(range(1, summary.steps + 1))
    added = [delivery.id for step in story.steps for delivery in step.added]
    assert len(set(added)) == len(added)
    open_before = set()
    for step in story.steps:
        for event in step.events:
            if isinstance(event, Done):
                assert event.request not in ended, "a request ends once"
                ended.add(event.request)
            elif isinstance(event, Reply):
                left[event.request] += 1
            requests.add(event.request)
        for delivery in step.added:
            requests.add(delivery.request)
            open_before.add(delivery.request)
        for record in story.records_of(step):
            if record.event is Event.HANDLED:
                assert record.delivery not in handled, "a step is committed once"
                handled.add(record.delivery)


def collect_keys(story, keys, shop):
    """What came under an id of its sender's, by the id's name."""
    for step in story.steps:
        cause = story.cause(step, shop)
        if isinstance(cause, OutsideMessage | RejectedMessage) and cause.key is not None:
            assert cause.key.name not in keys, "a message under an id is received once"
            keys[cause.key.name] = cause.request


def check_keys(diaries, told, keys, requests, ended, *, at_rest):
    """Every sender that had to send again was answered as if it had not; counts what came under an id."""
    for own, request in told.kept.items():
        assert request in keys.values(), f"what was kept under {own} is in the journal"
    if at_rest:
        for sender, diary in diaries.items():
            for letter in unheard(diary):
                name = receipts.make_key(sender, letter.conversation, letter.own, b"", None).name
                assert name not in keys, "who never heard sent what was never received"
        assert set(keys.values()) <= ended <= requests
    return len(keys)


def check_answers(story, answered):
    """A message that waited for approval continued only once it was approved; each answer counted once."""
    asked, approved = set(), set()
    for record in story.records():
        key = record.delivery
        if record.event is Event.ASKED:
            asked.add(key)
        elif record.event in {Event.APPROVED, Event.WITHDRAWN}:
            assert key in asked, "what was answered was asked"
            assert key not in answered, "and answered once"
            answered.add(key)
            if record.event is Event.APPROVED:
                approved.add(key)
        elif record.event is Event.HANDLED and key in asked:
            assert key in approved, (
                "nothing reaches a listener for which a person had to be asked and was not"
            )


def check_labels(reader, story, summary, shop):
    """The record of an open conversation leads to its stored state, labels included; counts labelled texts."""
    conversation = reader.load(summary.id)
    if conversation is None:
        return 0
    again = story.beginning.conversation()
    for step in story.steps:
        again = decision_codec.decide(again, story.cause(step, shop), shop, step.moment).conversation
    stored, replayed = (_read_parts(one, shop.guards) for one in (conversation, again))
    assert stored == replayed
    memory = conversation.memory.get("lineage")
    assert memory == again.memory.get("lineage")
    return 0 if memory is None else len(memory.ledger.texts)


def _read_parts(conversation, guards):
    """Read the parts of a conversation, without the lines of a log, which are grouped as they were stored."""
    parts = take(conversation, guards)
    values = {key: value for key, value in parts.values.items() if not _is_log(*key)}
    return parts._replace(values=values)


def _is_log(owner, name):
    return owner == "guard lineage" and name.startswith("log ")


def check_tree(reader, summary, *, at_rest):
    conversation = reader.load(summary.id)
    assert (conversation is None) == (summary.closed is not None)
    if conversation is None:
        return
    assert conversation.version == summary.steps
    nodes = conversation.tree.nodes
    waiting = [d for node in nodes.values() for d in node.list_waiting()]
    assert len(waiting) == len({d.id for d in waiting}) == summary.waiting
    assert {d.request for d in waiting} <= set(conversation.requests)
    for node in nodes.values():
        assert all(nodes[child].parent == node.id for child in node.children)
        assert all(d.thread == node.id and d.to == node.owner for d in node.list_waiting())
    for request in conversation.requests.values():
        assert request.pending == sum(d.request == request.id for d in waiting) > 0
    if at_rest:
        assert not conversation.requests
        assert not conversation.approvals()


def check_deliveries(endings, handled, told, *, at_rest):
    for key, ending in endings.items():
        if ending is DeliveryEnd.DONE:
            assert key in handled, "what is done was handled"
            assert told is None or told.ran[key] >= 1, "a handler ran at least once"
        if at_rest:
            assert ending is not None


def check_replies(told, left):
    fresh = Counter(request for request, again in told.replies if not again)
    twice = sorted(request for request, count in fresh.items() if count > left[request])
    assert not twice, f"no reply left twice without being marked: {twice}"
