from __future__ import annotations

from types import SimpleNamespace

from lxml import etree

from agentserver.cli.schemas import _version


def test_schemas_and_examples_are_written_and_checked(command, here, tmp_path):
    folder = tmp_path / "schemas"
    missing = command("schemas", "-o", str(folder), "--check")
    assert missing.exit_code == 1
    assert f"{folder}/greeter/v1.xsd: missing" in missing.output
    written = command("schemas", "-o", str(folder))
    assert written.exit_code == 0
    assert written.output.splitlines()[-1] == "0 of 14 files were current"
    assert {str(path.relative_to(folder)) for path in folder.rglob("*.xsd")} == {
        "greeter/v1.xsd", "both/v2.xsd", "both/Greet.v1.xsd", "waiter/v1.xsd", "twice/v1.xsd", "silent/v1.xsd",
        "crash/v1.xsd",
    }  # fmt: skip
    assert command("schemas", "-o", str(folder), "--check").output == "14 of 14 files were current\n"
    assert "Somebody to greet." in (folder / "greeter" / "v1.xsd").read_text()
    for path in folder.rglob("*.xsd"):
        example = etree.parse(path.with_suffix(".example.xml"))
        etree.XMLSchema(etree.parse(path)).assertValid(example)


def test_a_file_that_is_not_current_fails_the_check_and_is_renewed(command, here, tmp_path):
    command("schemas", "-o", str(tmp_path))
    stale = tmp_path / "greeter" / "v1.xsd"
    stale.write_bytes(b"\xff")
    checked = command("schemas", "-o", str(tmp_path), "--check")
    assert (checked.exit_code, checked.output) == (1, f"{stale}: not current\n")
    assert f"wrote {stale}\n" in command("schemas", "-o", str(tmp_path)).output
    assert stale.read_text().startswith("<xs:schema")


def test_a_hand_written_schema_is_not_written_over(command, here, tmp_path):
    command("schemas", "-o", str(tmp_path / "made"))
    own = here / "own" / "greeter" / "v1.xsd"
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text((tmp_path / "made" / "greeter" / "v1.xsd").read_text() + "<!-- by hand -->\n")
    text = (here / "config" / "organism.yaml").read_text()
    (here / "own.yaml").write_text(
        text.replace("name: greeter,", "name: greeter, schema: own/greeter/v1.xsd,")
    )
    result = command("schemas", "own.yaml", "-o", "own")
    assert result.exit_code == 0, result.output
    assert "<!-- by hand -->" in own.read_text()
    assert "own/greeter/v1.xsd" not in result.output


def test_a_namespace_without_a_version_counts_as_the_first():
    assert _version(SimpleNamespace(name="{urn:shop}Order")) == "v1"
    assert _version(SimpleNamespace(name="{http://shop.example/order/v12}Order")) == "v12"


def test_what_cannot_be_written_is_said(command, here, tmp_path):
    (tmp_path / "greeter").touch()
    result = command("schemas", "-o", str(tmp_path))
    assert result.exit_code == 1
    assert "Error: " in result.output
