"""Workers that lie: a door on a socket, and workers that say what a test wants."""

from __future__ import annotations

import asyncio

import pytest

from agentserver.core.state.principals import Trust
from agentserver.history.overview import describe_servers
from agentserver.worker import frames
from agentserver.worker.frames import HeartbeatFrame, dump_asked
from tests.gateways.http.desk import until
from tests.worker.remote.field import copy_project, done, serve_field

pytestmark = pytest.mark.anyio
CALL = "calculator/calls"


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return copy_project(tmp_path_factory.mktemp("hostile") / "project")


async def test_a_worker_reaches_the_calls_of_its_listener_and_nothing_else(path):
    async with serve_field(path) as field, field.posing() as worker, field.posing("ada") as user:
        assert (await worker.take("calculator.add")).status_code == 403
        assert (await worker.take("here")).status_code == 403
        assert (await worker.say("0" * 32, HeartbeatFrame(1), "calculator.add")).status_code == 403
        http = worker._http
        assert (await http.post("/v1/conversations")).status_code == 403
        for other in ("/v1/approvals", "/openapi.json", "/v1/conversations/x/events"):
            assert (await http.get(other)).status_code == 403, other
        assert (await user.take()).status_code == 403
        async with field.posing("nobody") as stranger:
            assert (await stranger.take()).status_code == 401
        assert (await worker.take(wait=0)).status_code == 204


async def test_a_second_answer_is_refused_and_logged(path, caplog):
    async with serve_field(path) as field, field.posing() as worker:
        asked = field.asking("hello")
        key, number = await worker.call()
        both = await asyncio.gather(
            worker.say(key, done(number, "one")), worker.say(key, done(number, "two"))
        )
        assert sorted(each.status_code for each in both) == [200, 410]
        assert await asked == ("one" if both[0].status_code == 200 else "two")
        late = await worker.say(key, done(number, "three"))
        assert (late.status_code, late.json()["detail"]) == (
            410,
            "Nobody waits for this: the call was answered before.",
        )
    assert (
        caplog.text.count("an answer of worker for calculator is refused: the call was answered before") == 2
    )


async def test_an_answer_to_a_call_of_another_worker_or_of_none_is_refused_and_logged(path, caplog):
    async with serve_field(path) as field, field.posing() as worker, field.posing("other") as thief:
        asked = field.asking("hello")
        key, number = await worker.call()
        assert (await thief.say(key, done(number, "stolen"))).status_code == 410
        assert (await thief.say("0" * 32, done(number))).status_code == 410
        assert (await thief.say(key, HeartbeatFrame(number))).status_code == 410
        assert (await worker.say(key, done(number, "mine"))).status_code == 200
        assert await asked == "mine"
    refused = "an answer of other for calculator is refused: this worker was given no call of this key"
    assert caplog.text.count(refused) == 2


async def test_an_answer_after_the_deadline_is_refused_and_logged(path, caplog):
    async with serve_field(path) as field, field.posing("adder") as worker:
        asked = field.asking("hello", to="calculator.add")
        key, number = await worker.call("calculator.add")
        assert await asked == "timeout"
        assert (await worker.say(key, done(number), "calculator.add")).status_code == 410
    assert "is refused: the call has ended: its deadline has passed, or it was cancelled" in caplog.text


@pytest.mark.parametrize(
    ("frame", "status"),
    [
        (b'{"kind": "returned"}', 422),
        (b"no json", 422),
        (dump_asked(HeartbeatFrame(999)), 410),
        (dump_asked(done(999)), 410),
    ],
)
async def test_a_worker_that_sends_an_invalid_frame_has_failed(path, caplog, frame, status):
    async with serve_field(path) as field, field.posing() as worker:
        asked = field.asking("hello")
        for _ in range(2):  # one of them repeats the first
            key, _ = await worker.call()
            assert (await worker.post(f"{CALL}/{key}", frame)).status_code == status
        assert await asked == "internal"
    assert "worker: it sent" in caplog.text or "worker: it spoke out of turn" in caplog.text


@pytest.mark.parametrize(
    ("root", "why"), [("Nothing", "is no payload of this organism"), ("Count", "missing element number")]
)
async def test_a_result_that_its_schema_refuses_is_refused_as_that_of_any_handler(path, caplog, root, why):
    async with serve_field(path) as field, field.posing() as worker:
        await field.hold("hello", "you")
        key, number = await worker.call()
        assert (await worker.say(key, done(number, root=root))).status_code == 200
        await until(lambda: why in caplog.text)
    assert "refused calculator -> ? validation" in caplog.text


async def test_a_frame_that_is_too_long_or_a_bomb_is_refused_unread(path):
    async with serve_field(path) as field, field.posing() as worker:
        field.asking("hello")
        key, number = await worker.call()
        assert (await worker.say(key, done(number, "x" * 2_000_000))).status_code == 413
        assert (await worker.post(f"{CALL}/{key}", b"[" * 100_000)).status_code == 422
        assert (await worker.post(CALL, b"[" + b"[]," * 60_000 + b"[]]")).status_code == 422


async def test_a_call_with_which_no_one_begins_is_given_to_another_worker(path, caplog):
    async with (
        serve_field(path, silences=(0.2, 100.0)) as field,
        field.posing() as gone,
        field.posing() as worker,
    ):
        asked = field.asking("hello")
        first, number = await gone.call()
        key, same = await worker.call()
        assert (await worker.say(key, HeartbeatFrame(number))).status_code == 200
        assert (number, first == key) == (same, False)
        assert (await gone.say(first, done(number, "late"))).status_code == 410
        assert (await worker.say(key, done(number, "done"))).status_code == 200
        assert await asked == "done"
    assert "is refused: the call was given to another worker" in caplog.text


async def test_a_worker_that_falls_silent_loses_its_call(path, caplog):
    async with serve_field(path, silences=(100.0, 0.3)) as field, field.posing() as worker:
        asked = field.asking("hello")
        for _ in range(2):
            key, number = await worker.call()
            assert (await worker.say(key, HeartbeatFrame(number))).status_code == 200
        assert await asked == "internal"
        late = await worker.say(key, done(number))
        assert late.json()["detail"] == "Nobody waits for this: the call has failed before."
    assert "worker: it was silent for 0.3 s" in caplog.text


def list_states(server):
    """The workers that a server reports, each with its state and its calls."""
    (told,) = describe_servers([server.describe_itself()])
    return {one["name"]: (one["state"], one["calls"]) for one in told["workers"]}


async def test_a_server_reports_its_workers_and_their_calls(path):
    async with serve_field(path) as field, field.posing() as worker:
        assert list_states(field.server) == {}
        waiting = asyncio.ensure_future(worker.take())
        await until(lambda: list_states(field.server) == {"worker": ("alive", 0)})
        asked = field.asking("hello")
        given = (await waiting).json()
        assert list_states(field.server) == {"worker": ("alive", 1)}
        await worker.say(given["key"], done(given["call"]["call"]))
        assert await asked == "done"
        assert list_states(field.server) == {"worker": ("alive", 0)}


async def test_the_end_of_a_call_is_sent_at_once_to_a_worker_that_reports_alive(path):
    async with serve_field(path) as field, field.posing() as worker:
        conversation = await field.hold("hello", "you")
        key, number = await worker.call()
        await worker.say(key, HeartbeatFrame(number))
        living = asyncio.ensure_future(worker.say(key, HeartbeatFrame(number)))
        await until(lambda: len(field.door.holding) == 1)
        await conversation.close()
        assert (await living).status_code == 410


async def test_a_revoked_worker_is_sent_away_while_it_waits(path):
    async with serve_field(path) as field, field.posing() as worker:
        waiting = asyncio.ensure_future(worker.take(wait=20))
        await until(lambda: len(field.door.holding) == 1)
        del field.people.known["worker"]
        assert (await waiting).status_code == 401
        assert (await worker.take()).status_code == 401


async def test_a_door_that_stops_sends_workers_away_and_takes_the_answers_of_their_calls(path):
    async with serve_field(path) as field, field.posing() as worker, field.posing("other") as idle:
        await field.hold("hello", "you")
        key, number = await worker.call()
        waiting = asyncio.ensure_future(idle.take(wait=20))
        await until(lambda: len(field.door.holding) == 1)
        field.door.stop()
        assert (await waiting).status_code == 503
        assert (await worker.say(key, HeartbeatFrame(number))).json()["kind"] == "heard"
        assert (await worker.say(key, HeartbeatFrame(number))).json()["kind"] == "heard", (
            "at once: none is held"
        )
        assert (await worker.say(key, done(number))).status_code == 200


async def test_a_worker_of_another_version_of_the_frames_is_refused_by_name(path):
    async with serve_field(path) as field, field.posing() as worker:
        answer = await worker.take(version=frames.VERSION + 1)
        assert answer.status_code == 409
        told = (
            f"This server speaks version {frames.VERSION} of the frames, and the worker {frames.VERSION + 1}."
        )
        assert answer.json()["detail"] == told


async def test_a_worker_has_no_rights_of_people():
    from tests.worker.remote.field import at_work

    who = at_work("worker", "calculator")
    assert (who.acts, who.decides, who.sees, who.principal.may) == (False, False, "worker", ())
    assert who.principal.trust is Trust.STRANGER


async def test_a_listener_that_is_not_remote_here_is_not_found(path):
    async with serve_field(path) as field:
        from tests.worker.remote.field import at_work

        field.people.known["lost"] = at_work("lost", "here")
        async with field.posing("lost") as worker:
            assert (await worker.take("here")).status_code == 404
