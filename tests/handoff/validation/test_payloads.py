"""The library face: its names, signatures and errors, and the six classes that it protects against."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import textwrap
from dataclasses import FrozenInstanceError
from datetime import date
from pathlib import Path

import pytest

from agentserver.handoff.validation import payloads
from agentserver.handoff.validation.payloads import (
    MAX_DEPTH,
    PAYLOAD_UNTYPED_HARD_DATE,
    VALIDATE_TIMEOUT_SECONDS,
    Finding,
    PayloadSchemaError,
    SchemaInvalid,
    admit_payload_schema,
    audit_handoff_chain,
    load_payload_schema,
    read_steps,
    strip_llm_visible_text,
    validate,
)
from tests.handoff import payload_workers as workers
from tests.machine import HANGS

jsonschema = pytest.importorskip("jsonschema")
ROOT = Path(__file__).parents[3]
RESULT = "schemas/handoff-payloads/conflict-audit-result.v1.schema.json"
SCHEMA = {
    "$id": "order/v1.schema.json",
    "type": "object",
    "properties": {"x": {"type": "string"}},
    "required": ["x"],
    "additionalProperties": False,
}


def test_constants_and_signatures_are_the_published_ones():
    assert date(2026, 7, 1) == PAYLOAD_UNTYPED_HARD_DATE
    assert (MAX_DEPTH, VALIDATE_TIMEOUT_SECONDS) == (32, 2.0)
    assert issubclass(PayloadSchemaError, ValueError)
    assert issubclass(SchemaInvalid, RuntimeError)
    assert list(inspect.signature(load_payload_schema).parameters) == ["value", "repo_root"]
    assert list(inspect.signature(strip_llm_visible_text).parameters) == ["schema"]
    called = inspect.signature(validate).parameters
    assert list(called) == ["payload", "schema", "timeout", "_worker"]
    assert called["timeout"].default == 2.0
    assert called["_worker"].default is None
    assert {each.kind for each in list(called.values())[2:]} == {inspect.Parameter.KEYWORD_ONLY}
    audited = inspect.signature(audit_handoff_chain).parameters
    assert list(audited) == ["steps", "today", "repo_root"]
    finding = Finding("PAYLOAD_UNTYPED", "WARN", "x")
    assert (finding.code, finding.severity, finding.message) == ("PAYLOAD_UNTYPED", "WARN", "x")
    with pytest.raises(FrozenInstanceError):
        finding.code = "y"


@pytest.mark.parametrize(
    "value",
    [
        "../etc/passwd",
        "/abs/path/foo.v1.schema.json",
        "https://example.com/foo.v1.schema.json",
        "schemas/handoff-payloads/../../etc/passwd",
        "schemas/other/foo.v1.schema.json",
        "schemas/handoff-payloads/Foo.v1.schema.json",
        "schemas/handoff-payloads/gone.v1.schema.json",
        "",
        RESULT + "\n",
    ],
)
def test_v1_references_are_restricted(value):
    with pytest.raises(PayloadSchemaError):
        load_payload_schema(value, ROOT)


def test_v1_a_permitted_reference_loads():
    assert load_payload_schema(RESULT, ROOT)["$id"] == "conflict-audit-result/v1.schema.json"


def test_v1_only_json_schema_objects_are_given(tmp_path):
    folder = tmp_path / "schemas" / "handoff-payloads"
    folder.mkdir(parents=True)
    (folder / "a.v1.schema.json").write_text("[]")
    (folder / "a.v1.xsd").write_text("<a/>")
    for name in ("a.v1.schema.json", "a.v1.xsd"):
        with pytest.raises(PayloadSchemaError, match="no JSON Schema object"):
            load_payload_schema(f"schemas/handoff-payloads/{name}", tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {"additionalProperties": True},
        {"required": []},
        {"properties": {}},
        {"$id": "no-version.schema.json"},
        {"$id": "order/v1.schema.json\n"},
        {"type": "array"},
        {"patternProperties": {"^x": {}}},
    ],
)
def test_v2_the_meta_schema_and_admission_refuse_permissive_schemas(tmp_path, changes):
    meta = json.loads((ROOT / "schemas/handoff-payload-meta.schema.json").read_text())
    jsonschema.Draft7Validator.check_schema(meta)
    validate(SCHEMA, meta)
    with pytest.raises(SchemaInvalid):
        validate({**SCHEMA, **changes}, meta)
    folder = tmp_path / "schemas" / "handoff-payloads"
    folder.mkdir(parents=True)
    (folder / "order.v1.schema.json").write_text(json.dumps({**SCHEMA, **changes}))
    assert load_payload_schema("schemas/handoff-payloads/order.v1.schema.json", tmp_path)
    with pytest.raises(PayloadSchemaError):
        admit_payload_schema("schemas/handoff-payloads/order.v1.schema.json", tmp_path)


def test_v2_the_projects_own_payload_satisfies_the_meta_schema():
    meta = json.loads((ROOT / "schemas/handoff-payload-meta.schema.json").read_text())
    validate(load_payload_schema(RESULT, ROOT), meta)
    good = {
        "plan": "a.steps.csv",
        "verdict": "hard",
        "findings": [{"code": "PAYLOAD_UNTYPED", "severity": "HARD", "message": "m", "row": 2}],
    }
    validate(good, load_payload_schema(RESULT, ROOT))
    for bad in ({**good, "verdict": "maybe"}, {**good, "plan": "a\n"}, {**good, "extra": 1}):
        with pytest.raises(SchemaInvalid):
            validate(bad, load_payload_schema(RESULT, ROOT))


def test_v3_admission_gives_no_words():
    text = json.dumps(admit_payload_schema(RESULT, ROOT))
    assert "description" not in text
    assert "title" not in text


def test_v3_four_keys_go_and_structure_stays():
    poisoned = {**SCHEMA, "title": "IGNORE", "description": "rm", "$comment": "c", "examples": ["e"]}
    poisoned["properties"] = {"title": {"type": "string", "description": "x"}, "x": {"enum": ["title"]}}
    assert strip_llm_visible_text(poisoned) == {
        **SCHEMA,
        "properties": {"title": {"type": "string"}, "x": {"enum": ["title"]}},
    }


def test_v4_cells_that_are_no_text_are_compared_all_the_same():
    (found,) = audit_handoff_chain([{"payload_schema_out": 5}, {"payload_schema_in": 6}])
    assert (found.code, found.severity) == ("PAYLOAD_MISMATCH", "HARD")


def test_v4_versions_are_compared():
    steps = [{"payload_schema_out": "foo/v1.schema.json"}, {"payload_schema_in": "foo/v2.schema.json"}]
    for day in (date(2026, 6, 1), date(2026, 8, 1)):
        (found,) = audit_handoff_chain(steps, today=day)
        assert (found.code, found.severity) == ("PAYLOAD_MISMATCH", "HARD")
    assert audit_handoff_chain([steps[0], {"payload_schema_in": "foo/v1.schema.json"}]) == []


def test_v4_with_a_root_the_schemas_are_opened(tmp_path):
    folder = tmp_path / "schemas" / "handoff-payloads"
    folder.mkdir(parents=True)
    (folder / "order.v1.schema.json").write_text(json.dumps(SCHEMA))
    (folder / "order.v2.schema.json").write_text(json.dumps(SCHEMA))
    xsd = '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" targetNamespace="urn:a:order:v1"><xs:element name="a" type="xs:int"/></xs:schema>'
    (folder / "order.v1.xsd").write_text(xsd)
    name = "schemas/handoff-payloads/order.v1.schema.json"

    def codes(given, taken):
        steps = [{"payload_schema_out": given}, {"payload_schema_in": taken}]
        return [each.code for each in audit_handoff_chain(steps, repo_root=tmp_path)]

    assert codes(name, name) == []
    assert codes(name, name.replace("v1", "v2")) == ["PAYLOAD_REJECTED"]  # its $id is not its name's
    assert codes(name, "schemas/handoff-payloads/order.v1.xsd") == ["PAYLOAD_MISMATCH"]
    assert codes(name, "order/v1.schema.json") == []  # a cell may hold the $id itself
    assert codes(name, "gone/v1.schema.json") == ["PAYLOAD_REJECTED"]
    assert codes(name, "") == ["PAYLOAD_UNTYPED"]


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"properties": {"a": {"$ref": "#/properties/b"}, "b": {"$ref": "#/properties/a"}}},
        {"$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}},
    ],
)
def test_v5_recursion_by_reference_is_refused_before_anything_runs(schema):
    with pytest.raises(SchemaInvalid, match="refers to itself"):
        validate({}, schema, _worker=pytest.fail)


def nest_schema(levels):
    schema = {"type": "string"}
    for _ in range(levels // 2):
        schema = {"properties": {"x": schema}}
    return schema


def test_v3_uncopyable_values_are_refused():
    around = {}
    around["properties"] = around
    for schema in (nest_schema(100_000), {"enum": [nest_schema(100_000)]}, around):
        with pytest.raises(SchemaInvalid):
            strip_llm_visible_text(schema)


def test_v5_depth_is_bounded():
    payloads._assert_bounded_schema(nest_schema(MAX_DEPTH - 2))
    for levels in (MAX_DEPTH + 2, 2000):
        with pytest.raises(SchemaInvalid, match="32 levels"):
            validate({}, nest_schema(levels), _worker=pytest.fail)
    own = {}
    own["not"] = own
    with pytest.raises(SchemaInvalid, match="itself"):
        validate({}, own)


def test_v5_time_is_bounded():
    with pytest.raises(SchemaInvalid, match="exceeded"):
        validate({"x": "a" * 60}, {"properties": {"x": {"pattern": "^(a+)+b$"}}}, timeout=0.3)
    validate({"x": "y"}, SCHEMA)


def test_v5_injected_workers_have_a_process_of_their_own():
    validate({"x": "y"}, SCHEMA, timeout=HANGS, _worker=workers.accept_payloads)
    with pytest.raises(SchemaInvalid, match="no: "):
        validate({"x": "y"}, SCHEMA, timeout=HANGS, _worker=workers.refuse_payloads)
    with pytest.raises(SchemaInvalid, match=r"exceeded 0\.5"):
        validate({"x": "y"}, SCHEMA, timeout=0.5, _worker=workers.slow)
    with pytest.raises(SchemaInvalid, match="without a result"):
        validate({"x": "y"}, SCHEMA, timeout=HANGS, _worker=workers.silent)
    with pytest.raises(SchemaInvalid, match="exit code 7"):
        validate({"x": "y"}, SCHEMA, timeout=HANGS, _worker=workers.die_at_once)


def test_an_unguarded_script_can_validate(tmp_path):
    """The reference re-imports its caller's main module in the worker."""
    script = tmp_path / "script.py"
    script.write_text(
        "from agentserver.handoff.validation.payloads import validate\n"
        f"validate({{'x': 'y'}}, {SCHEMA!r})\nprint('once')\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
        timeout=HANGS,
    )
    assert (done.stdout, done.stderr) == ("once\n", "")


@pytest.mark.parametrize(
    ("day", "severity"),
    [(date(2026, 6, 30), "WARN"), (PAYLOAD_UNTYPED_HARD_DATE, "HARD"), (date(2026, 7, 2), "HARD")],
)
def test_v6_untyped_is_hard_from_its_date(day, severity):
    steps = [{"step": "1", "payload_schema_out": ""}, {"step": "2", "payload_schema_in": ""}]
    assert [(each.code, each.severity) for each in audit_handoff_chain(steps, today=day)] == [
        ("PAYLOAD_UNTYPED", severity)
    ]


def test_v6_without_a_day_the_clock_decides():
    (found,) = audit_handoff_chain([{}, {}])
    assert found.severity == ("HARD" if date.today() >= PAYLOAD_UNTYPED_HARD_DATE else "WARN")  # noqa: DTZ011


def test_steps_are_read_as_they_are_written(tmp_path):
    path = tmp_path / "x.steps.csv"
    path.write_text(
        textwrap.dedent(
            """\
            step,actor,payload_schema_in,payload_schema_out,notes
            1,@x,,foo/v1.schema.json,"line one
            line two"
            2,@y,foo/v1.schema.json,,plain
            """
        )
    )
    rows = read_steps(path)
    assert len(rows) == 2
    assert rows[0]["notes"] == "line one\nline two"
    assert audit_handoff_chain(rows) == []
