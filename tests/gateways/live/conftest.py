from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentserver import config
from tests import machine
from tests.gateways.live.running import TOKENS, RunningServer
from tests.machine import report_missing

ROOT = Path(__file__).parents[3]
PATIENCE = 120_000
"""Milliseconds until a test gives up on a page: a guard against hanging, and nothing that a page promises."""

NOON = 1_700_000_000
"""The time of a page whose clock is stopped, in seconds since 1970."""


@pytest.fixture(scope="module")
def chromium():
    """The system's chromium, driven by Playwright."""
    try:
        from playwright.sync_api import expect, sync_playwright
    except ImportError:
        report_missing("the live view is tried with playwright, which is not installed")
    path = machine.chromium()
    if path is None:
        report_missing("the live view is tried in chromium, which is not installed here")
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=path, args=[*sandbox, "--disable-dev-shm-usage"])
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium):
    """Opens pages, each in a context of its own, and lets none of them break the policy or fail in a script.

    The clock of a page that is ``still`` is stopped until the test moves it (``page.clock.run_for``): on a slow machine too a mark
    does not go before it was looked at.
    """
    contexts, faults = [], []

    def visit_page(running, role="operator", path="/#/organism", address="", *, still=False, **how):
        context = chromium.new_context(
            **{"viewport": {"width": 1280, "height": 900}, "locale": "en-GB", **how}
        )
        contexts.append(context)
        page = context.new_page()
        if still:
            page.clock.install(time=NOON)
            page.clock.pause_at(NOON + 1)
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: faults.append(f"pageerror: {error}"))
        page.on(
            "console",
            lambda told: (
                faults.append(told.text) if told.type == "error" and "status of 4" not in told.text else None
            ),
        )
        page.on("dialog", lambda dialog: (faults.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.goto((address or running.address) + path)
        if role is not None:
            page.get_by_label("Token of a principal").fill(TOKENS[role])
            page.get_by_role("button", name="Log in").click()
            page.get_by_role("navigation", name="Pages").wait_for()
        return page

    visit_page.faults = faults
    yield visit_page
    for context in contexts:
        context.close()
    assert faults == []


@contextmanager
def desk(folder, mode):
    """The example whose clerk obeys the text that it reads, running with a journal."""
    place = folder / "desks"
    shutil.copytree(ROOT / "examples" / "desks", place)
    file = place / "plain.yaml"
    text = file.read_text().replace("mode: enforce", f"mode: {mode}")
    file.write_text(text)
    with RunningServer(config.load(file, environ={}), durable=True) as running:
        running.wish = next(
            payload
            for bound in running.organism.listeners
            if bound.listener.name == "clerk"
            for payload in bound.listener.payloads
            if payload.__name__ == "Wish"
        )
        yield running
