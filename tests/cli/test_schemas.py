from __future__ import annotations

from types import SimpleNamespace

from lxml import etree

from agentserver.cli.schemas import _find_version


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


def test_the_classes_of_a_function_are_listed_and_written_with_its_answers(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "summing.py").write_text(
        "async def add_up(a: int, b: int = 0) -> int:\n"
        '    """Add two numbers.\n\n    Args:\n        a: the first.\n    """\n    return a + b\n'
    )
    (tmp_path / "organism.yaml").write_text(
        "name: sums\nlisteners:\n  - {name: sum, handler: summing.add_up, description: Adds.}\n"
    )
    written = command("schemas", "organism.yaml")
    assert written.output.splitlines()[:2] == [
        "sum: AddUp in urn:agentserver:payload:AddUp:v1, derived from summing.add_up",
        "sum: AddUpResult in urn:agentserver:payload:AddUpResult:v1, derived from summing.add_up",
    ]
    assert "the first." in (tmp_path / "schemas/sum/v1.xsd").read_text()
    assert 'name="value" type="integer"' in (tmp_path / "schemas/sum/AddUpResult.v1.xsd").read_text()


def test_a_file_that_is_not_current_fails_the_check_and_is_renewed(command, here, tmp_path):
    command("schemas", "-o", str(tmp_path))
    stale = tmp_path / "greeter" / "v1.xsd"
    stale.write_bytes(b"\xff")
    checked = command("schemas", "-o", str(tmp_path), "--check")
    assert (checked.exit_code, checked.stdout) == (1, f"{stale}: out of date\n")
    assert checked.stderr == "agentserver schemas writes the missing and outdated files\n"
    assert f"wrote {stale}\n" in command("schemas", "-o", str(tmp_path)).output
    assert stale.read_text().startswith("<xs:schema")


ORDER = """\
<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" targetNamespace="urn:shop:v1" elementFormDefault="qualified">
  <xs:element name="Order"><xs:complexType><xs:sequence><xs:element name="item" type="xs:string"/></xs:sequence>
  </xs:complexType></xs:element>
</xs:schema>
<!-- by hand -->
"""

ORDERING = """\
from dataclasses import dataclass, field
from agentserver.payload.xsd_codec import bind

@dataclass
class Order:
    class Meta:
        namespace = "urn:shop:v1"

    item: str = field(metadata={"type": "Element", "required": True})

bind(Order, SCHEMA, example=Order("x"))

async def take(payload, metadata):
    return None
"""


def test_a_hand_written_schema_is_not_written_over(command, here):
    own = here / "own" / "orders" / "v1.xsd"
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text(ORDER)
    (here / "ordering_by_hand.py").write_text(ORDERING.replace("SCHEMA", repr(ORDER)))
    (here / "own.yaml").write_text(
        "name: own\nlisteners:\n  - {name: orders, description: Takes orders., schema: own/orders/v1.xsd,\n"
        "     payload_class: ordering_by_hand.Order, handler: ordering_by_hand.take}\n"
    )
    result = command("schemas", "own.yaml", "-o", "own")
    assert result.exit_code == 0, result.output
    assert own.read_text() == ORDER
    assert "own/orders/v1.xsd" not in result.output


def test_a_namespace_without_a_version_counts_as_the_first():
    assert _find_version(SimpleNamespace(name="{urn:shop}Order")) == "v1"
    assert _find_version(SimpleNamespace(name="{http://shop.example/order/v12}Order")) == "v12"


def test_an_impossible_write_is_reported(command, here, tmp_path):
    (tmp_path / "greeter").touch()
    result = command("schemas", "-o", str(tmp_path))
    assert result.exit_code == 2
    assert "File exists" in result.output
