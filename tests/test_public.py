"""The public names are those of docs/reference.md: each imports, and documents and examples use no others."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROW = re.compile(r"^\| `(agentserver(?:\.\w+)*)` \| (`.*`) \|$", re.MULTILINE)
PUBLIC = {
    module: re.findall(r"`(\w+)`", names)
    for module, names in ROW.findall((ROOT / "docs" / "reference.md").read_text("utf-8"))
}
SHOWN = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])
CODE = sorted(
    path
    for top in ("examples/**/*.py", "listeners/**/*.py", "agentserver/cli/scaffold/**/*.py.txt")
    for path in ROOT.glob(top)
)
PACKAGES = sorted(
    path.parent for path in ROOT.glob("agentserver/**/__init__.py") if "scaffold" not in path.parts
)


def name_of(path):
    """The module of a file or a folder."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def source(module):
    path = ROOT.joinpath(*module.split("."))
    return (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text("utf-8")


def exported_names(module):
    """The value of a module's ``__all__``, which need not be importable here."""
    for node in ast.parse(source(module)).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return ast.literal_eval(node.value)
    return None


@pytest.mark.parametrize("module", PUBLIC)
def test_the_names_of_a_public_module_are_those_that_it_says(module):
    assert PUBLIC[module] == sorted(exported_names(module) or ())


@pytest.mark.parametrize("module", PUBLIC)
def test_each_public_name_can_be_imported(module):
    if module.startswith("agentserver.provenance.adapters."):
        defined = {node.name for node in ast.parse(source(module)).body if hasattr(node, "name")}
        assert set(PUBLIC[module]) <= defined, "its framework need not be installed here"
        return
    found = importlib.import_module(module)
    assert [name for name in PUBLIC[module] if not hasattr(found, name)] == []


@pytest.mark.parametrize("package", PACKAGES, ids=name_of)
def test_a_folder_is_public_or_says_that_it_is_internal(package):
    told = ast.get_docstring(ast.parse((package / "__init__.py").read_text("utf-8"))) or ""
    assert name_of(package) in PUBLIC or "Internal" in told


def used_names(code):
    """The modules and names of the package that a text of Python imports."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "agentserver":
            yield from ((node.module, each.name) for each in node.names)
        if isinstance(node, ast.Import):
            yield from ((each.name, "") for each in node.names if each.name.startswith("agentserver."))


def unlisted_names(pairs):
    """Those of them that are not public. A public module may be imported whole from the one that holds it."""
    return [
        f"{module} {name}"
        for module, name in pairs
        if name not in PUBLIC.get(module, ()) and f"{module}.{name}".rstrip(".") not in PUBLIC
    ]


@pytest.mark.parametrize("path", CODE, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_an_example_imports_only_public_names(path):
    assert unlisted_names(used_names(path.read_text("utf-8"))) == []


def blocks(text):
    """The blocks of Python in a page, those that are not shown too."""
    fenced = re.findall(r"^( *)```python\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)
    hidden = re.findall(r"<!-+ ?invisible-code-block: python\n(.*?)-->", text, re.DOTALL)
    return [re.sub(rf"(?m)^{indent}", "", body) for indent, body in fenced] + hidden


@pytest.mark.parametrize("path", SHOWN, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_document_shows_only_public_names(path):
    text = path.read_text("utf-8")
    assert unlisted_names(pair for block in blocks(text) for pair in used_names(block)) == []
    if "decisions" in path.parts:
        return
    dotted = re.findall(r"`(agentserver(?:\.\w+)+)\b", text)
    files = re.compile(r"\.(?:py|md|xsd|json|yaml|svg)$")
    assert [
        name for name in dotted
        if not files.search(name) and name not in PUBLIC and name.rpartition(".")[2] not in PUBLIC.get(name.rpartition(".")[0], ())
    ] == []  # fmt: skip


def test_a_private_name_in_a_document_is_noticed(tmp_path):
    assert unlisted_names(used_names("from agentserver.pump import Pump\nimport agentserver.core.step")) == [
        "agentserver.pump Pump",
        "agentserver.core.step ",
    ]
    assert (
        unlisted_names(
            used_names("from agentserver import config, xmlify\nfrom agentserver.config import load")
        )
        == []
    )
