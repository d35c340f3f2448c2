"""A named tuple that is made without its constructor has every one of its fields."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
USERS = sorted(path for path in (ROOT / "agentserver").rglob("*.py") if "_new(" in path.read_text("utf-8"))


def made_classes(path):
    """The class and the tuple of each ``_new(Class, (...))``; the tuple may have a name in the function."""
    for function in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(function, ast.FunctionDef):
            named = {node.targets[0].id: node.value for node in ast.walk(function) if names_tuple(node)}
            for node in ast.walk(function):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "_new":
                    values = node.args[1]
                    yield node.lineno, node.args[0].id, named.get(getattr(values, "id", ""), values)


def names_tuple(node):
    return (
        isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Tuple)
    )


@pytest.mark.parametrize("path", USERS, ids=lambda path: path.stem)
def test_each_field_has_a_value(path):
    module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    for line, name, values in made_classes(path):
        assert isinstance(values, ast.Tuple), f"{path}:{line}: the values are not written out"
        if not any(isinstance(each, ast.Starred) for each in values.elts):
            fields = getattr(module, name)._fields
            assert len(values.elts) == len(fields), f"{path}:{line}: {name} has {len(fields)} fields"
