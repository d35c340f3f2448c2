"""The page of environment variables names every variable that the package reads, and no other."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).parents[1]
NAME = re.compile(r"[A-Z][A-Z0-9_]*")
SIGNALS = ("METRICS", "LOGS")
"""The values of the one name that is composed: agentserver/config/loading.py."""

BY_OTHERS = {"PGUSER", "PGDATABASE", "PGPASSWORD", "PGPASSFILE", "PGSSLMODE", "PGSSLROOTCERT", "NAME"}
"""Variables of the page that a library reads, and the placeholder of ``${NAME}``."""


def is_environ(node: ast.AST) -> bool:
    """Whether a node is ``environ``, ``os.environ`` or ``self.environ``."""
    return getattr(node, "attr", getattr(node, "id", "")) == "environ"


def read_variables(node: ast.AST) -> list[ast.expr]:
    """The names that a node reads from the environment, as expressions."""
    match node:
        case ast.Call(func=ast.Attribute(value=of, attr="get"), args=[name, *_]) if is_environ(of):
            return [name]
        case ast.Call(func=ast.Name(id="map"), args=[ast.Attribute(value=of, attr="get"), names]) if (
            is_environ(of)
        ):
            return [names]
        case ast.Subscript(value=of, slice=name) if is_environ(of):
            return [name]
        case ast.Call(keywords=keywords):
            return [each.value for each in keywords if each.arg == "envvar"]
    return []


def texts(node: ast.AST, known: dict[str, list[ast.AST]]) -> list[str]:
    """The names that an expression may be; none for a name that the user chooses."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.Tuple(elts=parts):
            return [text for part in parts for text in texts(part, known)]
        case ast.Name(id=name):
            rest = {each: values for each, values in known.items() if each != name}
            return [text for value in known.get(name, ()) for text in texts(value, rest)]
        case ast.JoinedStr(values=[*parts]):
            ends = [each.value if isinstance(each, ast.Constant) else None for each in parts]
            return ["".join(str(end or signal) for end in ends) for signal in SIGNALS]
    return []


def constants(tree: ast.Module) -> dict[str, list[ast.AST]]:
    """What each name of a module, or of a loop in it, is bound to."""
    found: dict[str, list[ast.AST]] = defaultdict(list)
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found[name].append(value)
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                for each, value in zip(names, values, strict=False):
                    found[getattr(each, "id", "")].append(value)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                found[name].append(value)
            case (
                ast.For(target=ast.Name(id=name), iter=many)
                | ast.comprehension(target=ast.Name(id=name), iter=many)
            ):
                found[name].append(many)
    return found


def test_the_page_names_every_variable_that_the_package_reads():
    read: set[str] = set()
    for file in sorted((ROOT / "agentserver").rglob("*.py")):
        text = file.read_text("utf-8")
        if "environ" in text or "envvar" in text:
            tree = ast.parse(text)
            known = constants(tree)
            names = chain.from_iterable(map(read_variables, ast.walk(tree)))
            read |= {found for name in names for found in texts(name, known) if NAME.fullmatch(found)}
    page = (ROOT / "docs" / "environment.md").read_text("utf-8")
    shown = set(re.findall(r"`\$?\{?([A-Z][A-Z0-9_]+)\}?`", page)) - BY_OTHERS
    assert {"AGENTSERVER_TOKEN", "AGENTSERVER_URL", "OTEL_METRICS_EXPORTER", "ANTHROPIC_API_KEY"} <= read
    assert shown == read
