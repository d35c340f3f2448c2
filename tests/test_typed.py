"""The quickstart, the tutorial and the page on backups, typed into one terminal from top to bottom: see tests/typist.py.

Beyond the pages: the backup goes to a folder of the test, `'.[` is the wheel of this checkout in place of the checkout, which pip
would build, and the versions are those of the lock. The environment is the one that the pages make; it has nothing of the
tests' own. Most of its time goes to pip, three times: nothing shorter shows that what the pages name is enough.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tests import installed
from tests.installed import _each_command_has_its_guard  # noqa: F401 - for each test here
from tests.typist import PageError, Step, Typist, pattern, steps

DOCS = installed.ROOT / "docs"


@pytest.fixture
def typist(tmp_path, tmp_path_factory):
    folder = installed.shared_folder(tmp_path_factory)
    wheel, tools = installed.build_wheel(folder), tmp_path / "tools"
    tools.mkdir()
    (tools / "python3").symlink_to(Path(sys.base_prefix) / "bin" / "python3")
    home = tmp_path / "checkout"
    home.mkdir()
    outside = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    outside["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"  # a newer pip would say so in the middle of a page
    outside |= {"PATH": f"{tools}:/usr/bin:/bin", "PIP_CONSTRAINT": str(installed.constraints(folder))}
    made = Typist(home, {"'.[": f"'{wheel}[", "/var/backups": str(home / "backups")}, outside)
    yield made
    made.close()


PAGES = (("quickstart.md", "."), ("tutorial.md", "."), ("how-to/backup.md", "reading-desk"))
"""The pages in order, and where each begins."""


def test_a_stranger_types_the_quickstart_the_tutorial_and_a_backup_from_top_to_bottom(typist):
    for page, folder in PAGES:
        typist.follow((DOCS / page).read_text("utf-8"), folder)
    assert len(typist.typed) > 30


SAID = "finished 21a2b9c8-8efc-2a4c-f2c4-bacee133a714 at 12:00:01\n"


@pytest.mark.parametrize(
    "shown",
    [
        "finished 00000000-8efc-2a4c-f2c4-bacee133a714 at 09:00:00\n",
        "finished … at …\n",
        "…\n",
        "finished 3f2a9c41-0000-0000-0000-000000000000   at 12:00:01\n",
    ],
)
def test_ids_times_and_omissions_may_differ_from_the_page(shown):
    assert re.fullmatch(pattern(shown), SAID)


@pytest.mark.parametrize(
    "shown", ["", "finished\n", "failed …\n", "finished … at noon\n", "finished … at …\nmore\n"]
)
def test_anything_else_may_not(shown):
    assert not re.fullmatch(pattern(shown), SAID)


def test_a_block_goes_where_the_sentence_above_it_says():
    page = "Write `a/b.py`:\n\n```python\nx\n```\n\nText. Add to `c.yaml`:\n\n```yaml\ny\n```\n\n```sh\nls\n```\n"
    assert list(steps(page)) == [
        Step("write", "a/b.py", "x\n"),
        Step("add", "c.yaml", "y\n"),
        Step("type", "", "ls\n"),
    ]


def test_a_block_of_code_that_goes_nowhere_is_a_mistake_of_the_page():
    with pytest.raises(PageError, match="names no file"):
        list(steps("A payload is a class:\n\n```python\nx\n```\n"))


def test_a_command_that_fails_and_an_answer_that_the_page_does_not_show_are_mistakes(typist):
    with pytest.raises(PageError, match="ended with 1"):
        typist.follow("```sh\nfalse\n```\n")
    with pytest.raises(PageError, match="what appeared"):
        typist.follow("```console\n$ echo one\ntwo\n```\n")
    typist.follow("```console\n$ echo one\none\n```\n")
