"""Generated modules: the same each time, importable, and bound to their schema."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from agentserver import codegen
from agentserver.codegen import CodegenError, generate
from agentserver.payload.codec import Codecs

SCHEMA = Path(__file__).parent / "schemas" / "invoice.xsd"


def load(path: Path, source: str) -> ModuleType:
    file = path / "invoice_generated.py"
    file.write_text(source, encoding="utf-8")
    spec = spec_from_file_location("invoice_generated", file)
    assert spec is not None
    module = module_from_spec(spec)
    sys.modules["invoice_generated"] = module
    assert spec.loader is not None
    spec.loader.exec_module(module)
    return module


def test_a_module_is_generated_and_its_classes_are_payloads(tmp_path: Path) -> None:
    source = generate(SCHEMA)
    assert source == generate(SCHEMA)
    module = load(tmp_path, source)
    codecs = Codecs([module.Invoice, module.Receipt])
    for cls in (module.Invoice, module.Receipt):
        codec = codecs.of(cls)
        assert codecs.for_root(cls.__xml_name__) is codec
        assert codec.example()
    assert [line for line in source.splitlines() if line.startswith("bind(")] == [
        "bind(Receipt, SCHEMA)",
        "bind(Invoice, SCHEMA)",
    ]
    assert str(tmp_path) not in source


def write(
    folder: Path,
    inner: str,
    head: str = 'targetNamespace="urn:a" xmlns="urn:a" elementFormDefault="qualified"',
) -> Path:
    path = folder / "a.xsd"
    path.write_text(
        f'<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" {head}>{inner}</xs:schema>', encoding="utf-8"
    )
    return path


ROOT = '<xs:element name="a" type="xs:string"/>'


@pytest.mark.parametrize(
    ("inner", "head", "reason"),
    [
        ('<xs:include schemaLocation="../b.xsd"/>', None, "a file of the schema's own folder"),
        ('<xs:include schemaLocation="/etc/passwd"/>', None, "a file of the schema's own folder"),
        ('<xs:include schemaLocation="link.xsd"/>', None, "a file of the schema's own folder"),
        (ROOT, "", "has no targetNamespace"),
        ('<xs:element name="a" type="nowhere"/>', None, "is no XSD 1.0"),
        ("<xs:import/>", None, "xs:import is not supported"),
    ],
)  # fmt: skip
def test_a_schema_that_cannot_be_used_is_refused(
    tmp_path: Path, inner: str, head: str | None, reason: str
) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "b.xsd").write_text("<x/>")
    (inside / "link.xsd").symlink_to(tmp_path / "b.xsd")
    path = write(inside, inner) if head is None else write(inside, inner, head)
    with pytest.raises(CodegenError, match=reason):
        generate(path)


def test_a_schema_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CodegenError, match="cannot be read: No such file"):
        generate(tmp_path / "none.xsd")


def test_without_the_extra_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(
        CodegenError, match=r"needs the extra codegen: in a checkout, pip install '\.\[codegen\]'"
    ):
        generate(SCHEMA)


def test_a_generator_that_does_not_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codegen, "SECONDS", 0.01)
    with pytest.raises(CodegenError, match="took more than"):
        generate(SCHEMA)


def test_a_generator_that_makes_nothing_gets_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codegen, "_PACKAGE", "other.package")
    with pytest.raises(CodegenError, match="the generator failed"):
        generate(SCHEMA)


def test_abstract_elements_are_not_bound(tmp_path: Path) -> None:
    inner = '<xs:complexType name="T"><xs:sequence><xs:element name="v" type="xs:string"/></xs:sequence></xs:complexType>'
    source = generate(
        write(
            tmp_path, f'{inner}<xs:element name="t" type="T"/><xs:element name="u" type="T" abstract="true"/>'
        )
    )
    assert source.count("\nbind(") == 1
    module: Any = load(tmp_path, source)
    assert Codecs().of(module.T).example() == '<t xmlns="urn:a"><v>text</v></t>'
