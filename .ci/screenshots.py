"""The main pages of the built site, opened in chromium and photographed: the second half of ``./run site``.

Each page is opened wide and light, and narrow and dark; with --all also the other two ways. It fails for a page without
a heading, for a script that fails, for what cannot be loaded or lies elsewhere, and for a page that is wider than its
window. The pictures are in out/site-pictures, to be looked at.

    python .ci/screenshots.py [--all]
"""

from __future__ import annotations

import os
import shutil
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
host: Any = import_module("tests.machine")

PICTURES = ROOT / "out" / "site-pictures"
PAGES = (
    "index", "quickstart", "tutorial", "how-to/policies", "refused", "keys", "commands", "payloads", "api",
    "contract", "concepts", "pictures", "threat-model", "compared",
)  # fmt: skip
SHAPES = {
    f"{width}-{scheme}": {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    for width in (1280, 390)
    for scheme in ("light", "dark")
}
QUICK = ("1280-light", "390-dark")
SITE = ROOT / "out" / "site"
ADDRESS = "http://site.invalid"
PATIENCE = 60_000
"""Milliseconds after which a page is given up: a guard against hanging."""


def browser() -> tuple[Any, str]:
    """Playwright's beginning and chromium's path. Exits when one is not here: with 1 in CI, else with 0 and a word."""
    path = host.chromium()
    if path is None or find_spec("playwright") is None:
        print(
            "SKIPPED: the pages are looked at in chromium with playwright, and one of them is not here",
            flush=True,
        )
        sys.exit(int(host.in_ci()))
    from playwright.sync_api import sync_playwright

    return sync_playwright, path


def serve(route: Any) -> None:
    """Answer a request with a file of the site; refuse any other path."""
    path = SITE / route.request.url.removeprefix(f"{ADDRESS}/").partition("?")[0]
    if path.is_file():
        route.fulfill(path=path)
    else:
        route.abort()


def faults(page: Any) -> Iterator[str]:
    """All that is wrong with an open page."""
    if not page.locator("article h1").count():
        yield "has no heading"
    wider = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    if wider > 0:
        yield f"is {wider} pixels wider than its window"
    for picture in page.locator("article img").all():
        picture.scroll_into_view_if_needed()
        if not picture.evaluate("image => image.decode().then(() => image.naturalWidth, () => 0)"):
            yield f"shows no picture at {picture.get_attribute('src')}"
    for link in page.locator("link[href], script[src]").all():
        where = link.evaluate("element => element.href || element.src")
        if link.get_attribute("rel") != "canonical" and not where.startswith((ADDRESS, "data:")):
            yield f"needs {where}"


def listen(page: Any, said: list[str]) -> None:
    """Have what goes wrong while a page is loaded written down."""
    page.on("pageerror", lambda error: said.append(f"has a script that fails: {error}"))
    page.on("requestfailed", lambda request: said.append(f"cannot load {request.url}"))


def look(chromium: Any, shapes: Iterable[str]) -> list[str]:
    """Open and photograph each page in these shapes. Returns the findings."""
    wrong: list[str] = []
    for shape in shapes:
        context = chromium.new_context(locale="en-GB", **SHAPES[shape])
        context.route("**/*", serve)
        for name in PAGES:
            page = context.new_page()
            said: list[str] = []
            page.set_default_timeout(PATIENCE)
            listen(page, said)
            page.goto(f"{ADDRESS}/{name}.html", wait_until="load")
            said += faults(page)
            page.evaluate("scrollTo(0, 0)")
            page.screenshot(path=PICTURES / f"{name.replace('/', '-')}-{shape}.png")
            page.close()
            wrong += [f"{name}.html, {shape}: {fault}" for fault in said]
        context.close()
        print(f"... {len(PAGES)} pages, {shape}", flush=True)
    return wrong


def main(*args: str) -> int:
    """Look at the site; gives the exit status."""
    playwright, path = browser()
    shutil.rmtree(PICTURES, ignore_errors=True)
    PICTURES.mkdir(parents=True)
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    with playwright() as started:
        chromium = started.chromium.launch(executable_path=path, args=[*sandbox, "--disable-dev-shm-usage"])
        wrong = look(chromium, SHAPES if "--all" in args else QUICK)
        chromium.close()
    for fault in wrong:
        print(fault)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
