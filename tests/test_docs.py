"""The code blocks of README.md, docs/ and examples/ run.

In one document all Python blocks share a namespace, in order. XML and YAML blocks must be well formed. A block that
cannot run has the comment `<!-- skip: next "reason" -->`; languages that are not named below are only shown.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
import yaml
from lxml import etree
from sybil import Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser, SkipParser

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted(path for top in ("README.md", "docs", "examples") for path in [ROOT / top, *(ROOT / top).rglob("*.md")]
                   if path.suffix == ".md" and path.is_file())  # fmt: skip

CHECKS = {
    "json": json.loads,
    "toml": tomllib.loads,
    "xml": lambda text: etree.fromstring(
        text.encode(), etree.XMLParser(resolve_entities=False, no_network=True)
    ),
    "yaml": yaml.safe_load,
}


def check(language):
    def evaluate(example):
        CHECKS[language](example.parsed)

    return CodeBlockParser(language, evaluate)


READER = Sybil([PythonCodeBlockParser(future_imports=["annotations"]), SkipParser(), *map(check, CHECKS)])


def run(path):
    for example in READER.parse(path).examples():
        example.evaluate()


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_the_code_blocks_run(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(path)


@pytest.mark.parametrize(
    "block",
    [
        "```python\nassert 1 == 2\n```\n",
        "```xml\n<a><b></a>\n```\n",
        "```yaml\na: [\n```\n",
        "```json\n{\n```\n",
    ],
)
def test_a_broken_block_is_noticed(block, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(block)
    with pytest.raises((AssertionError, etree.XMLSyntaxError, yaml.YAMLError, json.JSONDecodeError)):
        run(page)


def test_blocks_of_a_page_share_their_names(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\na = 1\n```\n\n```python\nassert a == 1\n```\n")
    run(page)
