import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from agentserver.config.editors import editor_schema
from tests.config.conftest import ONE

SCHEMA = json.loads(editor_schema())


def test_the_file_is_the_generated_schema():
    file = Path(__file__).parents[2] / "schemas" / "organism.schema.json"
    assert file.read_text("utf-8") == editor_schema()


def test_it_is_a_schema_and_explains_every_key():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    for part in (SCHEMA, *SCHEMA["$defs"].values()):
        assert part["title"]
        assert part["description"]
        assert all(value["title"] and value["description"] for value in part["properties"].values())


@pytest.mark.parametrize(
    "line",
    [
        "deadline: 30s",
        "deadline: 2",
        "peers:",
        "payload_class: a.b",
        "payload_class: [a.b, c.d]",
        "schema: a.xsd",
    ],
)
def test_it_takes_what_the_loader_takes(line):
    jsonschema.validate(yaml.safe_load(ONE + f"    {line}\n"), SCHEMA)


@pytest.mark.parametrize(
    "line",
    [
        "deadline: soon",
        "deadline: 0",
        "colour: red",
        "payload_class: []",
        "concurrency: 0",
        "agent: x",
        "name: -x",
    ],
)
def test_it_refuses_what_the_loader_refuses(line):
    data = yaml.safe_load(ONE)
    data["listeners"][0] |= yaml.safe_load(line)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, SCHEMA)
