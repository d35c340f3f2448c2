"""A project directory to load organisms from, whose modules leave the process with the test."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent

import pytest

from agentserver.config import Organism, forget
from agentserver.config.findings import Severity
from agentserver.config.loading import inspect

OWN = {"listeners", "mine", "shared", "space", "top"}
"""Top-level modules that the tests make."""

CODE = """
from __future__ import annotations
from dataclasses import dataclass, field
from agentserver.contract import HandlerMetadata, HandlerResponse
from agentserver.payload.xmlify import xmlify

@xmlify
@dataclass
class Greeting:
    name: str

@xmlify
@dataclass
class Reply:
    text: str

async def greet(payload: Greeting, metadata: HandlerMetadata) -> HandlerResponse | None:
    return HandlerResponse.respond(Reply(payload.name))

async def plain(payload, metadata):
    return None
"""

ONE = """
name: demo
listeners:
  - name: greeter
    handler: listeners.greet.greet
    description: Greets.
"""


@dataclass
class ProjectDirectory:
    root: Path
    environ: dict[str, str] = field(default_factory=dict)

    def beside(self, name: str) -> ProjectDirectory:
        return ProjectDirectory(self.root.parent / name)

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else dedent(text).encode())
        return path

    def inspect(self, text: str | bytes, name: str = "organism.yaml"):
        return inspect(self.write(name, text), self.environ)

    def load(self, text: str) -> Organism:
        organism, findings = self.inspect(text)
        assert organism is not None, "\n".join(map(str, findings))
        return organism

    def findings(self, text: str | bytes, name: str = "organism.yaml") -> list[str]:
        """Every finding as its line of text, the project directory left out."""
        organism, findings = self.inspect(text, name)
        if organism is not None:
            forget(organism)
        return [str(finding).replace(f"{self.root}/", "") for finding in findings]

    def errors(self, text: str | bytes) -> list[str]:
        organism, findings = self.inspect(text)
        errors = [str(f).replace(f"{self.root}/", "") for f in findings if f.severity is Severity.ERROR]
        assert (organism is None) == bool(errors)
        return errors

    def listener(self, text: str, code: str = "") -> list[str]:
        """The findings about a listener with more keys, and more code in its module."""
        self.write("listeners/greet.py", CODE + dedent(code))
        return self.findings(ONE + "".join(f"    {line}\n" for line in dedent(text).strip().splitlines()))

    def handler(self, code: str, payload_class: str = "Greeting") -> list[str]:
        """The findings about a handler called ``it``."""
        self.write("listeners/greet.py", CODE + dedent(code))
        declared = f"\n    payload_class: listeners.greet.{payload_class}" if payload_class else ""
        return self.findings(ONE.replace("greet.greet", "greet.it").rstrip() + declared)


@pytest.fixture
def project(tmp_path):
    before = set(sys.modules)
    directory = ProjectDirectory(tmp_path / "project")
    directory.root.mkdir()
    directory.write("listeners/__init__.py", "")
    directory.write("listeners/greet.py", CODE)
    yield directory
    for name in set(sys.modules) - before:
        if name.split(".")[0] in OWN:
            del sys.modules[name]
