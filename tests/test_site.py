"""The site of the documentation: each page in one of four parts, and what .ci/site.py makes of them.

`./run site` builds it; here is what can be said without building.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
PARTS = ["Home", "Tutorial", "How-to", "Reference", "Explanation"]


class _Loader(yaml.SafeLoader):
    """Loader of mkdocs.yml that calls no functions for its tags."""


_Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)
CONFIG = yaml.load((ROOT / "mkdocs.yml").read_text("utf-8"), _Loader)


@pytest.fixture(scope="module")
def site():
    spec = importlib.util.spec_from_file_location("site_hook", ROOT / ".ci" / "site.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pages(items):
    for item in items:
        if isinstance(item, str):
            yield item
        else:
            (value,) = item.values()
            yield from [value] if isinstance(value, str) else pages(value)


def test_there_are_four_parts():
    assert [next(iter(part)) for part in CONFIG["nav"]] == PARTS


def test_each_page_is_in_one_part(site):
    docs = ROOT / "docs"
    written = {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")}
    wanted = {page for page in written if not page.startswith("decisions/")} | {
        *site.HOME.values(),
        site.DECISIONS,
    }
    listed = list(pages(CONFIG["nav"]))
    assert sorted(listed) == sorted(set(listed)), "a page is in the navigation twice"
    assert sorted(wanted - set(listed)) == [], "put the page into one of the four parts: nav of mkdocs.yml"
    assert sorted(set(listed) - wanted) == [], "the navigation names pages that do not exist"


def test_every_public_name_is_on_the_page_of_the_api(site):
    assert "\n::: agentserver.HandlerResponse\n" in site.api()
    assert len(re.findall(r"(?m)^::: ", site.api())) > 100


def test_a_link_to_a_file_next_to_the_pages_leads_to_its_copy(site):
    page = ROOT / "docs" / "provenance" / "guarantee.md"
    text = "[a](../../tests/conftest.py) [b](../../README.md#x) [c](fields.md) [d](https://there.example) `[e](f)`"
    assert site.relink(text, page, "provenance/guarantee.md") == (
        "[a](../source/tests/conftest.py.txt) [b](../index.md#x) [c](fields.md) [d](https://there.example) `[e](f)`"
    )


def test_a_link_in_a_block_of_code_stays(site):
    text = "```python\nx = a[0](docs)\n```\n[a](../README.md)"
    assert site.relink(text, ROOT / "docs" / "tools.md", "tools.md") == text.replace(
        "../README.md", "index.md"
    )


@pytest.mark.parametrize(
    ("html", "fetched"),
    [
        ('<script src="https://cdn.example/x.js">', ["https://cdn.example/x.js"]),
        ('<link rel="stylesheet" href="//fonts.example/a">', ["//fonts.example/a"]),
        ('<a href="https://there.example">', []),
        ('<img src="here.png"><link href="../x.css">', []),
    ],
)
def test_a_page_that_fetches_from_elsewhere_is_reported(site, html, fetched):
    assert site.list_foreign_urls(html) == fetched


def test_states_are_drawn_by_the_product(site):
    drawn = site.drawn("    [*] --> open: start\n    open --> [*]\n    open --> open: go on\n")
    assert drawn.startswith("![Which stage may follow which](data:image/svg+xml;base64,")
    assert "| new | start | open |" in drawn


def test_the_first_sentence_of_a_page_comes_from_its_first_paragraph(site):
    text = "# Title\n\n```sh\nnot this. one\n```\n\nA [page](x.md) says\nthis. And that.\n"
    assert site.first_sentence(text) == "A page says this."
