"""Generates Python dataclasses from a hand-written XSD, ready to be payloads.

A generated module contains its schema, so that they cannot drift apart. Needs an extra.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from lxml import etree

from agentserver.extras import MissingExtraError, require
from agentserver.hygiene.simple_types import XSD
from agentserver.payload.fields.field_table import PayloadError
from agentserver.payload.xsd_codec import SCHEMA_BYTES, inline_schema, judge

SECONDS = 60.0
"""Time limit of the generator in seconds."""

_PACKAGE = "generated"
_BIND = "from agentserver.payload.xsd_codec import bind\n\n__NAMESPACE__"


class CodegenError(Exception):
    """Error that nothing was generated, with its reason and remedy."""


def generate(schema: Path) -> str:
    """Generate a module: a frozen dataclass for each type, and each global element bound to its schema.

    Includes are read only from the folder of ``schema``. The same schema gives the same text.
    """
    try:
        require("code generation", "codegen")
    except MissingExtraError as error:
        raise CodegenError(str(error)) from None
    try:
        tree = inline_schema(_read(schema), _read_siblings(schema))
        judge(tree)
    except PayloadError as error:
        raise CodegenError(f"{schema}: {error}") from None
    if not tree.get("targetNamespace"):
        raise CodegenError(f"{schema}: has no targetNamespace; a payload needs one of its own")
    text = etree.tostring(tree, encoding="unicode")
    source = _run_generator(schema.stem, text)
    return f"{source.rstrip()}\n\n{_format_tail(source, tree, text)}"


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(SCHEMA_BYTES + 1)
    except OSError as error:
        raise CodegenError(f"{path}: cannot be read: {error.strerror}") from None


def _read_siblings(schema: Path) -> dict[str, bytes]:
    """Read the other schemas of the folder, by name; links out of it are skipped."""
    folder = schema.parent.resolve()
    others = (each for each in sorted(schema.parent.glob("*.xsd")) if each.resolve().parent == folder)
    return {each.name: _read(each) for each in others if each.name != schema.name}


def _run_generator(stem: str, text: str) -> str:
    options = [
        "--structure-style",
        "single-package",
        "--docstring-style",
        "Google",
        "--max-line-length",
        "110",
    ]
    with TemporaryDirectory() as folder:
        source = Path(folder, f"{stem}.xsd")
        source.write_text(text, encoding="utf-8")
        command = [sys.executable, "-m", "xsdata", "generate", source.name, "--package", _PACKAGE]
        bin_folder = str(Path(sys.executable).parent)  # xsdata formats with ruff, which it looks up by name
        environment = {**os.environ, "PATH": os.pathsep.join([bin_folder, os.environ.get("PATH", "")])}
        try:
            done = subprocess.run(  # noqa: S603 - no shell, and every word is ours
                [*command, *options, "--frozen"],
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise CodegenError(f"{stem}.xsd: the generator took more than {SECONDS:.0f} seconds") from None
        module = Path(folder, f"{_PACKAGE}.py")
        if done.returncode or not module.exists():
            raise CodegenError(f"{stem}.xsd: the generator failed: {done.stderr.strip()[-500:]}")
        return module.read_text(encoding="utf-8").replace("__NAMESPACE__", _BIND, 1)


def _format_tail(source: str, tree: etree._Element, text: str) -> str:
    lines = "\n".join(f"    {line!r}" for line in text.splitlines(keepends=True))
    binds = "\n".join(f"bind({name}, SCHEMA)" for name in _list_roots(source, tree))
    return f"\nSCHEMA = (\n{lines}\n)\n\n{binds}\n"


def _list_roots(source: str, tree: etree._Element) -> list[str]:
    """List the classes of global elements, which alone have a namespace in Meta."""
    elements = {
        each.get("name")
        for each in tree.findall(f"{{{XSD}}}element")
        if each.get("abstract") not in {"true", "1"}
    }
    found = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef):
            meta = _build_meta(node)
            if "namespace" in meta and meta.get("name", node.name) in elements:
                found.append(node.name)
    return found


def _build_meta(node: ast.ClassDef) -> dict[str, object]:
    for inner in node.body:
        if isinstance(inner, ast.ClassDef) and inner.name == "Meta":
            return {
                target.id: each.value.value
                for each in inner.body
                if isinstance(each, ast.Assign) and isinstance(each.value, ast.Constant)
                for target in each.targets
                if isinstance(target, ast.Name)
            }
    return {}
