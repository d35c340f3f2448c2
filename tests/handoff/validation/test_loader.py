"""Opening schemas: nothing outside of the root, not by name and not by link."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from agentserver.handoff.validation import payloads
from agentserver.hygiene.objections import BYTES, Objection, Schema

NAME = "schemas/handoff-payloads/order.v1.schema.json"
GOOD = {
    "$id": "order/v1.schema.json",
    "type": "object",
    "properties": {"x": {"type": "null"}},
    "required": ["x"],
    "additionalProperties": False,
}


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "root" / "schemas" / "handoff-payloads"
    folder.mkdir(parents=True)
    (folder / "order.v1.schema.json").write_text(json.dumps(GOOD))
    return tmp_path / "root"


def error_detail(value, root):
    found = payloads.load(value, root)
    assert isinstance(found, Objection)
    return found.detail


def test_a_schema_is_loaded_and_admitted(root):
    found = payloads.load(NAME, root)
    assert isinstance(found, Schema)
    assert found.tree == GOOD
    assert isinstance(payloads.admit(NAME, root), Schema)
    assert isinstance(payloads.load(NAME, Path(os.path.relpath(root))), Schema)


@pytest.mark.parametrize(
    "value", ["", None, 5, "../x", "/etc/passwd", "https://a/b", NAME.upper(), NAME + "\n"]
)
def test_references_are_restricted(root, value):
    error_detail(value, root)


def test_a_link_within_the_root_is_followed_and_one_out_of_it_is_not(root, tmp_path):
    folder = root / "schemas" / "handoff-payloads"
    (folder / "same.v1.schema.json").symlink_to("order.v1.schema.json")
    assert isinstance(payloads.load(NAME.replace("order", "same"), root), Schema)
    secret = tmp_path / "secret.json"
    secret.write_text(json.dumps(GOOD))
    (folder / "out.v1.schema.json").symlink_to(secret)
    assert "symbolic link" in error_detail(NAME.replace("order", "out"), root)
    (folder / "order.v1.schema.json").unlink()
    (folder / "order.v1.schema.json").symlink_to("order.v1.schema.json")
    assert "cannot be read" in error_detail(NAME, root)


def test_a_folder_that_leads_out_is_not_followed(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "order.v1.schema.json").write_text(json.dumps(GOOD))
    root = tmp_path / "root"
    (root / "schemas").mkdir(parents=True)
    (root / "schemas" / "handoff-payloads").symlink_to(outside)
    assert "symbolic link" in error_detail(NAME, root)


def test_a_link_that_is_put_there_meanwhile_is_not_followed(root, tmp_path, monkeypatch):
    """The check sees a plain file; by the time of opening there is a link."""
    secret = tmp_path / "secret.json"
    secret.write_text(json.dumps(GOOD))
    file = root / NAME
    resolve = Path.resolve

    def race_loader(path, *, strict=False):
        found = resolve(path, strict=strict)
        if path.name == file.name:
            file.unlink()
            file.symlink_to(secret)
        return found

    monkeypatch.setattr(Path, "resolve", race_loader)
    assert "cannot be read" in error_detail(NAME, root)


def test_only_plain_files_of_bounded_size_are_read(root):
    file = root / NAME
    file.unlink()
    assert "cannot be read" in error_detail(NAME, root)
    os.mkfifo(file)
    assert "no plain file" in error_detail(NAME, root)
    file.unlink()
    file.mkdir()
    assert "no plain file" in error_detail(NAME, root)
    file.rmdir()
    file.write_bytes(b" " * (BYTES + 2))
    assert "bytes" in error_detail(NAME, root)
    file.write_text('{"a":1,"a":2}')
    assert "once" in error_detail(NAME, root)


def test_a_missing_root_is_said(tmp_path):
    assert "cannot be read" in error_detail(NAME, tmp_path / "gone")


def test_admission_asks_every_rule(root):
    (root / NAME).write_text(json.dumps({**GOOD, "$id": "order/v2.schema.json", "required": []}))
    found = payloads.admit(NAME, root)
    assert not isinstance(found, Schema)
    assert [each.rule for each in found] == ["required", "versioned"]
    missing = payloads.admit("x", root)
    assert not isinstance(missing, Schema)
    assert missing[0].rule == "reference"
