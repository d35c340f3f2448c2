import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from tests.config.conftest import ONE

SCHEMA = json.loads((Path(__file__).parents[3] / "schemas" / "organism.schema.json").read_text("utf-8"))

EDITOR = jsonschema.Draft202012Validator(SCHEMA)


def test_it_is_a_schema_and_explains_every_key():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    for part in (SCHEMA, *SCHEMA["$defs"].values()):
        assert part["title"]
        assert part["description"]
        assert all(value["title"] and value["description"] for value in part.get("properties", {}).values())


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
def test_the_schema_accepts_whatever_the_loader_accepts(line):
    EDITOR.validate(yaml.safe_load(ONE + f"    {line}\n"))


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
def test_the_schema_refuses_whatever_the_loader_refuses(line):
    data = yaml.safe_load(ONE)
    data["listeners"][0] |= yaml.safe_load(line)
    with pytest.raises(jsonschema.ValidationError):
        EDITOR.validate(data)


TRUST = """
mode: enforce
sources: [greeter]
sinks: {mailer: {arguments: {to: destination, url: {role: destination, accepts: [asked]}}, mode: audit}, other: null}
fields: {greeter: {text: prose}}
strict: yes
plan: required
effects: {link: block}
limit: 1000
"""


@pytest.mark.parametrize("keys", [TRUST, "", "sinks: [a, b]", "policy: config/policy.yaml", "strict: 'off'"])
def test_it_takes_a_policy_that_the_loader_takes(keys):
    EDITOR.validate({**yaml.safe_load(ONE), "provenance": yaml.safe_load(keys)})


@pytest.mark.parametrize(
    "keys",
    [
        "moed: enforce",
        "mode: enforced",
        "sources: a",
        "sinks: {a: {argument: {}}}",
        "sinks: {a: {arguments: {b: {accepts: [c]}}}}",
        "sinks: {a: {arguments: {b: receiver}}}",
        "effects: {contents: block}",
        "fields: {a: {b: trusted}}",
        "limit: 0",
    ],
)
def test_it_refuses_a_policy_that_the_loader_refuses(keys):
    with pytest.raises(jsonschema.ValidationError):
        EDITOR.validate({**yaml.safe_load(ONE), "provenance": yaml.safe_load(keys)})
