"""What the answers of a broker mean for an entry, one answer after the other. No broker says these when it is asked to."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from nats.js.errors import NoStreamResponseError, NotFoundError, ServiceUnavailableError

from agentserver.broker.address import BrokerAddress, BrokerError
from agentserver.engines.nats import stream
from agentserver.engines.nats.answers import ENOUGH, UnsettledError
from agentserver.engines.nats.keeping import Keeping
from agentserver.engines.nats.life import SILENT, Life
from agentserver.engines.nats.log import LogOptions, NatsLog
from agentserver.engines.nats.members import BEATS
from agentserver.engines.nats.stream import LogStream
from agentserver.engines.nats.subjects import LogSubjects
from agentserver.engines.replica.log import BrokenLogError
from agentserver.ports import EngineError, FencedError
from agentserver.ports.sharing import Share

pytestmark = pytest.mark.anyio

EPOCH = 40


class Said:
    """A link over which these answers come, one for each attempt; None is silence."""

    def __init__(self, *answers):
        self.answers, self.ids, self.moves, self.most = list(answers), [], 0, 1 << 20

    async def elsewhere(self):
        self.moves += 1

    async def ask(self, subject, data, seconds, headers=None):
        self.ids += [headers["Nats-Msg-Id"]] if headers and "Nats-Msg-Id" in headers else []
        answer = self.answers.pop(0)
        if answer is None:
            raise BrokerError("silence")
        return SimpleNamespace(data=json.dumps(answer).encode())


def error(number, words, code=400):
    return {"error": {"code": code, "err_code": number, "description": words}}


IN_PROCESS = error(10158, "duplicate message id is in process", 409)
FULL = error(10077, "maximum bytes exceeded", 503)
NOBODY = error(10008, "no leader", 503)


async def appended(*answers):
    link = Said(*answers)
    try:
        return await LogStream(link, LogSubjects("o"), None).append(
            3, EPOCH, b"entry", {"Nats-Msg-Id": "one"}
        )
    finally:
        assert set(link.ids) == {"one"}
        assert not link.answers


@pytest.mark.parametrize("silence", [None, NOBODY], ids=["silent", "no leader"])
@pytest.mark.parametrize("then", [IN_PROCESS, FULL], ids=["in process", "full"])
async def test_after_a_silence_an_error_does_not_say_that_an_entry_is_not_kept(silence, then):
    assert await appended(silence, then, then, {"seq": 41, "duplicate": True}) == 41


async def test_an_id_that_the_broker_is_about_to_have_is_no_refusal():
    assert await appended(IN_PROCESS, IN_PROCESS, {"seq": 41, "duplicate": True}) == 41


@pytest.mark.parametrize("full", [FULL, error(10023, "insufficient resources", 503)], ids=["log", "storage"])
async def test_what_is_refused_at_once_is_not_kept(full):
    """Where the log was full its senders waited until there was room: it was taken for silence."""
    with pytest.raises(EngineError, match=r"maximum bytes exceeded|insufficient resources"):
        await appended(full)


async def test_a_stream_that_failed_otherwise_may_have_kept_it():
    failed = error(10077, "input/output error", 503)
    assert await appended(failed, {"seq": 41, "duplicate": True}) == 41


class Shrinking(Said):
    """A broker that takes less after the first message, whose answer never came."""

    async def ask(self, subject, data, seconds, headers=None):
        self.most = self.then
        self.sent.append((len(data), headers.get("Agentserver-Object")))
        return await super().ask(subject, data, seconds, headers)


class Beside:
    """What is kept beside the log; the first time it is refused."""

    def __init__(self):
        self.put_, self.kept = 0, {}

    async def put(self, name, data):
        self.put_ += 1
        if self.put_ == 1:
            raise EngineError("not now")
        self.kept[name] = data


def shrinking(then, *answers):
    log = NatsLog(LogOptions("o", BrokerAddress("nats://127.0.0.1:9")))
    log._link, log._keeping = Shrinking(*answers), Beside()
    log._link.then, log._link.sent = then, []
    log._stream = LogStream(log._link, LogSubjects("o"), None)
    return log


async def test_an_entry_that_has_become_too_large_goes_beside_the_log_under_its_id():
    """It was sent again for ever, and never left."""
    log = shrinking(4096, None, {"seq": 9})
    assert await log.append(3, EPOCH, b"x" * 9000, "one") == 9
    assert log._link.sent == [(9000, None), (0, "one")]
    assert (log._keeping.kept, log._keeping.put_) == ({"one": b"x" * 9000}, 2)
    assert set(log._link.ids) == {"one"}


async def test_a_large_entry_waits_for_a_leader_of_its_bucket_as_a_small_one_does():
    """The server that wrote it was told that the broker refuses it."""
    raised = [TimeoutError(), ServiceUnavailableError(), NoStreamResponseError()]
    kept = {}

    async def put(name, data, _meta):
        if raised:
            raise raised.pop()
        kept[name] = data

    async def create_object_store(_name, _config):
        return SimpleNamespace(put=put)

    link = SimpleNamespace(most=1 << 20, stream=SimpleNamespace(create_object_store=create_object_store))
    await Keeping(link, LogSubjects("o"), 3).put("one", b"x")
    assert kept == {"one": b"x"}
    assert not raised


async def test_a_broker_that_takes_nothing_any_more_refuses_what_was_not_sent_yet():
    log = shrinking(100)
    log._link.most, log._keeping.put_ = 100, 1
    with pytest.raises(EngineError, match="max_payload"):
        await log.append(3, EPOCH, b"x", "one")
    assert log._link.sent == []


async def test_who_was_overtaken_is_fenced_also_after_a_silence():
    with pytest.raises(FencedError):
        await appended(None, error(10071, f"wrong last sequence: {EPOCH + 1}"))


async def test_a_leader_that_has_not_come_to_a_claim_yet_fences_nobody():
    assert await appended(error(10071, "wrong last sequence: 12"), {"seq": 41}) == 41


async def test_an_expectation_that_was_not_met_in_other_words_fences():
    with pytest.raises(FencedError):
        await appended(error(10071, "it is another one"))


async def test_an_expectation_that_was_not_met_at_no_place_that_there_is_fences():
    with pytest.raises(FencedError):
        await appended(error(10071, f"wrong last sequence: {'9' * 5000}"))


async def nothing():
    """Makes no bucket."""


async def test_a_process_whose_node_answers_no_beat_tries_another_node():
    lease = 2.0
    most = round(SILENT * BEATS / lease)  # a new leader takes less
    link = Said(*[None] * (most - 1), {"seq": 1}, *[None] * 2 * most)
    life = Life(link, LogSubjects("o"), None, "me", lease, nothing)
    moves = []
    while link.answers:
        await life._beat()
        moves.append(link.moves)
    assert [moves.index(1), moves.index(2)] == [2 * most - 1, 3 * most - 1]
    assert life.trouble


class Client:
    """A client whose one subscription gets what the test puts into it."""

    is_connected = True

    def __init__(self):
        self.asked = asyncio.Event()

    def new_inbox(self):
        return "inbox"

    async def subscribe(self, subject, cb):
        self.came = cb
        return self

    subject = "inbox"

    async def publish(self, subject, data, reply):
        self.asked.set()

    async def give(self, place):
        sequence, time = SimpleNamespace(stream=place), datetime.fromtimestamp(place, UTC)
        metadata = SimpleNamespace(sequence=sequence, timestamp=time)
        await self.came(
            SimpleNamespace(headers=None, metadata=metadata, subject=LogSubjects("o").log(0), data=b"1")
        )

    async def unsubscribe(self):
        self.gone = True


async def reading(*answers):
    """A link whose reader waits, and the task that reads. The answers come after the one that there is a reader."""
    link = Said({}, *answers)
    loop = asyncio.get_running_loop()
    link.client, link.over, link.denied = Client(), loop.create_future(), loop.create_future()
    link.entries = LogStream(link, LogSubjects("o"), None).follow(0)
    task = asyncio.ensure_future(anext(link.entries))
    await link.client.asked.wait()
    await asyncio.sleep(0)
    return link, task


async def test_a_reader_that_is_cancelled_in_the_turn_in_which_an_entry_comes_ends():
    link, task = await reading()
    await link.client.came(SimpleNamespace(headers={"Status": "100"}))
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert link.client.gone


async def test_a_reader_whose_connection_is_over_says_so_at_once():
    link, task = await reading()
    link.over.set_result("it was closed")
    with pytest.raises(BrokenLogError, match="it was closed"):
        await task


async def test_a_reader_whose_broker_refuses_something_for_good_says_what():
    """It asked again for ever, and every answer was refused for the same reason."""
    link, task = await reading()
    link.denied.set_result('subscription to "inbox.>"')
    await link.client.came(SimpleNamespace(headers={"Status": "409"}))
    with pytest.raises(BrokenLogError, match="subscription"):
        await task


KEPT = {"message": {"seq": 2}}


async def test_an_entry_that_was_lost_on_its_way_is_read_by_another_reader():
    """It was taken for forgotten: the server gave up for good what it had, and had to be started again."""
    link, task = await reading(KEPT, {"state": {"last_seq": 3}}, {})
    await link.client.give(1)
    assert (await task).place == 1
    task = asyncio.ensure_future(anext(link.entries))
    link.client.asked.clear()
    await link.client.give(3)
    await link.client.asked.wait()
    for place in (2, 3):
        await link.client.give(place)
    assert [(await task).place, (await anext(link.entries)).place] == [2, 3]
    assert not link.answers


async def test_one_that_came_before_is_no_gap():
    link, task = await reading({})
    await link.client.give(0)
    link.client.asked.clear()
    await link.client.asked.wait()
    await link.client.give(1)
    assert (await task).place == 1


async def test_what_the_broker_keeps_no_more_ends_a_reader():
    link, task = await reading(error(10037, "no message found", 404))
    await link.client.give(2)
    with pytest.raises(BrokenLogError, match="forgotten"):
        await task


async def test_what_no_reader_is_given_ends_them(monkeypatch):
    monkeypatch.setattr(stream, "AGAIN", 0)
    link, task = await reading(*[KEPT, {}] * (stream.LOST - 1), KEPT)
    while not task.done():
        link.client.asked.clear()
        await link.client.give(2)
        await asyncio.wait(
            [task, asyncio.ensure_future(link.client.asked.wait())], return_when="FIRST_COMPLETED"
        )
    with pytest.raises(BrokenLogError, match="which it has"):
        await task
    assert not link.answers


async def test_the_value_of_a_name_is_asked_for_until_the_broker_has_a_leader():
    """A server that was started again while there was none ended."""
    said = [ServiceUnavailableError(), NotFoundError(), SimpleNamespace(data=b"the first's")]
    link = Said(None, NOBODY, error(10071, "wrong last sequence: 1"))

    async def get_last_msg(stream, subject):
        answer = said.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    link.stream = SimpleNamespace(get_last_msg=get_last_msg)
    log = NatsLog(LogOptions("o", BrokerAddress("nats://127.0.0.1:9")))
    log._link = link
    assert await log.once("log", "mine") == "the first's"
    assert not said


async def test_an_entry_that_may_have_been_kept_is_refused_so_often_and_no_more(monkeypatch):
    """It was sent for ever, and held up its partition."""
    monkeypatch.setattr(stream, "AGAIN", 0)
    with pytest.raises(UnsettledError, match="maximum bytes exceeded"):
        await appended(None, *[FULL] * (ENOUGH + 1))


async def given_back(log, epoch, monkeypatch):
    """The error for an entry that has become too large, where nothing is kept beside the log; and what is held then."""
    monkeypatch.setattr("agentserver.engines.nats.log.AGAIN", 0)

    async def put(_name, _data):
        raise EngineError("maximum payload")

    log._keeping.put = put
    log._life = Life(log._link, LogSubjects("o"), log._stream, "me", 2.0, nothing)
    log._life._held = {3: Share(3, EPOCH), 4: Share(4, EPOCH + 1)}
    with pytest.raises(EngineError) as refusal:
        await log.append(3, epoch, b"x" * 9000, "one")
    return refusal.value, set(log._life._held)


async def test_a_claim_is_let_go_of_which_an_entry_is_too_large_by_now_and_may_be_kept(monkeypatch, caplog):
    """It was sent for ever. Under the next claim nothing counts of what may come of it yet."""
    error, held = await given_back(shrinking(4096, None), EPOCH, monkeypatch)
    assert isinstance(error, FencedError)
    assert held == {4}
    (told,) = [each for each in caplog.messages if "AS_LOG_o" in each]
    assert (
        "an entry of the partition 3 was sent, and is refused since: maximum payload (give the account"
        in told
    )


async def test_what_has_no_claim_and_is_too_large_by_now_is_refused(monkeypatch):
    error, held = await given_back(shrinking(4096, None), None, monkeypatch)
    assert not isinstance(error, FencedError)
    assert "may have been kept" in str(error)
    assert held == {3, 4}
