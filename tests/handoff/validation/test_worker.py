"""The validation worker: warm, killable, and silent about payloads."""

from __future__ import annotations

import json
import os
import signal
import threading

import pytest

pytest.importorskip("jsonschema")

from agentserver.handoff.validation import validator, worker
from agentserver.handoff.validation.worker import ValidationFailed, ValidationWorker
from agentserver.hygiene.objections import SchemaLanguage

SCHEMA = {
    "$id": "x/v1.schema.json",
    "type": "object",
    "properties": {"x": {"type": "string", "pattern": "^[a-z]+$"}},
    "required": ["x"],
    "additionalProperties": False,
}
SLOW = {"properties": {"x": {"pattern": "^(a+)+b$"}}}
XSD = """<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" targetNamespace="urn:a:v1">
<xs:element name="a" type="xs:int"/></xs:schema>"""


@pytest.fixture(scope="module")
def shared_worker():
    with ValidationWorker() as running:
        yield running


def refusal(running, payload, schema=SCHEMA, **options):
    with pytest.raises(ValidationFailed) as caught:
        running.validate(payload, schema, **options)
    return str(caught.value)


def test_a_valid_value_passes_and_the_process_stays(shared_worker):
    shared_worker.validate({"x": "ok"}, SCHEMA)
    first = shared_worker._process.pid
    shared_worker.validate({"x": "ok"}, SCHEMA)
    assert shared_worker._process.pid == first


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        ({"x": "ok\n"}, "/x: breaks 'pattern'"),
        ({"x": "a1"}, "'pattern'"),
        ({"x": 5}, "/x: breaks 'type'"),
        ({}, "'required'"),
        ({"x": "a", "SECRET": 1}, "'additionalProperties'"),
        ({"x": "SECRET-1"}, "'pattern'"),
    ],
)
def test_refusals_name_the_rule_and_quote_nothing(shared_worker, payload, said):
    text = refusal(shared_worker, payload)
    assert said in text
    assert "SECRET" not in text


@pytest.mark.parametrize("payload", [{"x": float("nan")}, {"x": object()}, {1, 2}, float("inf")])
def test_only_json_is_sent(shared_worker, payload):
    assert "no JSON" in refusal(shared_worker, payload)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": 5},
        {"$ref": "https://127.0.0.1:1/x"},
        {"$ref": "#/gone"},
        {"pattern": "("},
        {"$ref": "#"},
        "not json",
    ],
)
def test_an_invalid_schema_is_an_answer(shared_worker, schema):
    payload = "text" if isinstance(schema, dict) and "pattern" in schema else {"x": "a"}
    assert refusal(shared_worker, payload, schema)
    shared_worker.validate({"x": "ok"}, SCHEMA)


def test_a_slow_schema_is_killed_in_time_and_the_next_call_runs(shared_worker):
    assert "exceeded 0.3 s" in refusal(shared_worker, {"x": "a" * 50}, SLOW, timeout=0.3)
    assert shared_worker._process is None
    shared_worker.validate({"x": "ok"}, SCHEMA)


def test_a_worker_that_is_given_no_processor_has_its_time_when_it_comes(shared_worker):
    """A busy machine refused a payload as invalid whose judgement takes a thousandth of a second."""
    shared_worker.validate({"x": "ok"}, SCHEMA)
    process = shared_worker._process
    os.kill(process.pid, signal.SIGSTOP)
    going_on = threading.Timer(0.5, os.kill, (process.pid, signal.SIGCONT))
    going_on.start()
    shared_worker.validate({"x": "ok"}, SCHEMA, timeout=0.2)
    going_on.join()
    assert shared_worker._process is process


def test_a_stuck_worker_is_abandoned(shared_worker, monkeypatch):
    monkeypatch.setattr(worker, "LATEST", 0.3)
    shared_worker.validate({"x": "ok"}, SCHEMA)
    os.kill(shared_worker._process.pid, signal.SIGSTOP)
    assert "exceeded 0.2 s" in refusal(shared_worker, {"x": "ok"}, timeout=0.2)
    assert shared_worker._process is None


def test_without_a_cpu_clock_of_a_process_wall_time_counts(shared_worker, monkeypatch):
    shared_worker.validate({"x": "ok"}, SCHEMA)
    monkeypatch.delattr(worker.time, "clock_gettime")
    assert "exceeded 0.3 s" in refusal(shared_worker, {"x": "a" * 50}, SLOW, timeout=0.3)


def test_a_worker_that_dies_is_said_and_replaced(shared_worker):
    shared_worker.validate({"x": "ok"}, SCHEMA)
    shared_worker._process.kill()
    shared_worker._process.wait()
    shared_worker.validate({"x": "ok"}, SCHEMA)


def test_a_worker_that_dies_within_a_call_is_said(monkeypatch, tmp_path):
    program = tmp_path / "dying.py"
    program.write_text(
        "import sys;o=sys.stdout.buffer;o.write(b'\\0\\0\\0\\2{}');o.flush();sys.stdin.buffer.read(4)"
    )
    monkeypatch.setattr(worker, "_PROGRAM", str(program))
    with ValidationWorker() as running:
        assert "without a result" in refusal(running, {})


def test_a_worker_that_does_not_start_is_said(monkeypatch, tmp_path):
    program = tmp_path / "broken.py"
    program.write_text("raise SystemExit(3)")
    monkeypatch.setattr(worker, "_PROGRAM", str(program))
    with ValidationWorker() as running:
        assert "did not start" in refusal(running, {})


def test_a_worker_that_talks_nonsense_is_killed(monkeypatch, tmp_path):
    program = tmp_path / "odd.py"
    program.write_text(
        "import sys;o=sys.stdout.buffer;o.write(b'\\0\\0\\0\\2{}'+b'\\0\\0\\0\\2[]');o.flush();sys.stdin.buffer.read(4)"
    )
    monkeypatch.setattr(worker, "_PROGRAM", str(program))
    with ValidationWorker() as running:
        running.validate({}, {})  # a list says nothing against it


def test_an_interrupted_exchange_leaves_no_half_answer(shared_worker, monkeypatch):
    shared_worker.validate({"x": "ok"}, SCHEMA)

    def raise_interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(worker, "_exchange", raise_interrupt)
        with pytest.raises(KeyboardInterrupt):
            shared_worker.validate({"x": "ok"}, SCHEMA)
    assert shared_worker._process is None
    shared_worker.validate({"x": "ok"}, SCHEMA)


def test_large_messages_go_both_ways_and_have_a_bound(shared_worker, monkeypatch):
    shared_worker.validate({"x": "a" * 500_000}, SCHEMA)
    monkeypatch.setattr(worker, "MOST", 100)
    assert "bytes" in refusal(shared_worker, {"x": "a" * 100})


def test_threads_take_turns(shared_worker):
    failed = []

    def call_many():
        for _ in range(20):
            try:
                shared_worker.validate({"x": "ok"}, SCHEMA)
            except ValidationFailed as error:
                failed.append(error)

    threads = [threading.Thread(target=call_many) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def test_another_process_does_not_share_it(shared_worker, monkeypatch):
    shared_worker.validate({"x": "ok"}, SCHEMA)
    mine = shared_worker._process
    monkeypatch.setattr(os, "getpid", lambda: -1)
    shared_worker.validate({"x": "ok"}, SCHEMA)
    theirs = shared_worker._process
    assert theirs.pid != mine.pid
    assert mine.poll() is None
    shared_worker.close()
    monkeypatch.undo()
    shared_worker._process, shared_worker._find_owner = mine, os.getpid()
    shared_worker.close()
    shared_worker.close()


def test_xsd_is_judged_too(shared_worker):
    shared_worker.validate('<a xmlns="urn:a:v1">5</a>', XSD, kind=SchemaLanguage.XSD)
    text = refusal(shared_worker, '<a xmlns="urn:a:v1">SECRET</a>', XSD, kind=SchemaLanguage.XSD)
    assert "ValidationError" in text
    assert "SECRET" not in text
    assert "Parse" in refusal(shared_worker, "<a/>", "<x/>", kind=SchemaLanguage.XSD)
    assert refusal(shared_worker, "<a", XSD, kind=SchemaLanguage.XSD)


def test_a_schema_that_hangs_libxml2_is_killed(shared_worker):
    inner = '<xs:element name="a" type="xs:int"/>'
    for _ in range(16):
        inner = f'<xs:sequence minOccurs="0">{inner}{inner[:0]}<xs:element name="b" type="xs:int" minOccurs="0"/></xs:sequence>'
    many = "".join(f'<xs:element name="e{n}" type="xs:int" minOccurs="0"/>' for n in range(2500))
    schema = XSD.replace(
        '<xs:element name="a" type="xs:int"/>',
        f'<xs:element name="a"><xs:complexType><xs:sequence>{many}</xs:sequence></xs:complexType></xs:element>',
    )
    assert "exceeded" in refusal(shared_worker, "<a/>", schema, kind=SchemaLanguage.XSD, timeout=0.5)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("^a$", "^a\\Z"),
        (r"a\$$", r"a\$\Z"),
        ("[$]$", "[$]\\Z"),
        ("[]$]$", "[]$]\\Z"),
        ("[^]$]", "[^]$]"),
        (r"[\]$]$", r"[\]$]\Z"),
        ("$|x$", "\\Z|x\\Z"),
        ("[", "["),
        ("\\", "\\"),
    ],
)
def test_a_dollar_is_the_end_of_the_text(pattern, expected):
    assert validator.anchor(pattern) == expected


def test_whatever_a_schema_sets_off_is_an_answer():
    from collections import OrderedDict

    def answer(kind, schema, payload):
        return validator._answer(OrderedDict(), {"kind": kind, "schema": schema, "payload": payload})

    assert answer("json-schema", '{"type": 5}', 1).startswith("SchemaError: ")
    assert "\n" not in answer("json-schema", '{"type": 5}', 1)
    assert answer("xsd", XSD, '<a xmlns="urn:a:v1">1</a>') == ""
    assert answer("other", "", 1).startswith("KeyError")


def test_the_program_itself():
    """Run the loop in this process: its answers, and its small cache of schemas."""
    import io

    def frame_data(message):
        data = json.dumps(message).encode()
        return len(data).to_bytes(4) + data

    messages = [
        {
            "kind": "json-schema",
            "schema": json.dumps({**SCHEMA, "maxProperties": n + 1}),
            "payload": {"x": "a"},
        }
        for n in range(validator.KEPT + 2)
    ]
    given = b"".join(map(frame_data, [*messages, {"kind": "xsd", "schema": XSD, "payload": "<b/>"}]))
    given += frame_data({"kind": "json-schema", "schema": '{"pattern":"^a$"}', "payload": "b"}) + b"\0"
    taken = io.BytesIO()
    validator.serve(io.BytesIO(given), taken)
    said = taken.getvalue()
    answers = []
    while said:
        size = int.from_bytes(said[:4])
        answers.append(json.loads(said[4 : 4 + size]))
        said = said[4 + size :]
    assert answers[0] == {"ready": True}
    assert answers[1:-2] == [{"error": ""}] * (validator.KEPT + 2)
    assert "ValidationError" in answers[-2]["error"]
    assert "'pattern'" in answers[-1]["error"]
