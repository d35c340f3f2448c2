from __future__ import annotations

import ast

SCHEMA = """\
<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns="urn:shop:order:v1" targetNamespace="urn:shop:order:v1"
           elementFormDefault="qualified">
  <xs:element name="Order"><xs:complexType><xs:sequence>
    <xs:element name="sku" type="xs:string"/>
  </xs:sequence></xs:complexType></xs:element>
</xs:schema>
"""


def test_a_schema_becomes_a_module(command, tmp_path):
    schema, module = tmp_path / "order.xsd", tmp_path / "order.py"
    schema.write_text(SCHEMA)
    printed = command("codegen", str(schema))
    assert printed.exit_code == 0, printed.output
    assert "Order" in {
        node.name for node in ast.walk(ast.parse(printed.output)) if isinstance(node, ast.ClassDef)
    }
    assert command("codegen", str(schema), "-o", str(module)).output == ""
    assert module.read_text() == printed.output


def test_a_schema_that_is_refused_is_no_traceback(command, tmp_path):
    schema = tmp_path / "order.xsd"
    schema.write_text("<nonsense/>")
    result = command("codegen", str(schema))
    assert result.exit_code == 2
    assert "its root is not xs:schema" in result.output
