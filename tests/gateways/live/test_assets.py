from __future__ import annotations

import re
import subprocess
from importlib.resources import files

import pytest

from agentserver.gateways.live.pages import POLICY, TYPES

ASSETS = files("agentserver.gateways.live").joinpath("assets")
NAMES = sorted(each.name for each in ASSETS.iterdir())
SCRIPTS = [name for name in NAMES if name.endswith(".js")]


def text(name):
    return ASSETS.joinpath(name).read_text("utf-8")


def test_together_they_are_small():
    assert sum(len(ASSETS.joinpath(name).read_bytes()) for name in NAMES) < 150_000


def test_each_has_a_type_that_is_served():
    assert {name.rpartition(".")[2] for name in NAMES} <= TYPES.keys()


@pytest.mark.parametrize("name", NAMES)
def test_no_other_host_is_contacted(name):
    found = set(re.findall(r"\b(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}[^\s\"']*", text(name)))
    assert found <= {"http://www.w3.org/2000/svg"}


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_script_reads_markup_or_makes_code_of_a_text(name):
    forbidden = (
        r"innerHTML|outerHTML|insertAdjacent|document\.write|DOMParser|srcdoc|createContextualFragment|setHTML"
        r"|\beval\b|new Function|javascript:|trustedTypes|localStorage|sessionStorage|document\.cookie"
    )
    assert re.findall(forbidden, text(name)) == []
    assert re.findall(r"set(?:Timeout|Interval)\(\s*[\"'`]", text(name)) == []


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_module_that_is_imported_is_there(name):
    assert {each.removeprefix("./") for each in re.findall(r'from "([^"]+)"', text(name))} <= set(SCRIPTS)


def test_the_page_holds_no_script_and_no_style():
    page = text("index.html")
    assert re.findall(r"<style|style=|\bon[a-z]+=|<script(?![^>]* src=)", page) == []


def test_the_policy_is_the_one_that_was_asked_for():
    assert POLICY == (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    )


def test_git_keeps_them_all():
    folder = "agentserver/gateways/live/assets"
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", folder],
        capture_output=True,
        text=True,
        check=True,
        cwd=files("agentserver").joinpath(".."),
    ).stdout
    assert sorted(line.rpartition("/")[2] for line in listed.splitlines()) == NAMES
