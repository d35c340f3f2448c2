"""Frames of the live view's organism page while events arrive, in the system's chromium.

The page has recorded answers instead of a server (tests/gateways/live/showroom.py). Every 100 ms, as the server's
stream does, it is sent its share of the events. One table has the time from frame to frame: median, 95th percentile,
the longest, and the frames that took longer than 17 ms. The other has work that does not depend on how busy the
machine is, per event: changes of the document, and layouts, style recalculations and CPU of the page's thread as
Chromium counts them (``Performance.getMetrics``), the page's own CPU in the time of a frame, and its tasks over 50 ms.
Layouts per event are low because all events of a frame share one.

    ./run bench live [--rate 100] [--seconds 10] [--rounds 3]
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from pathlib import Path
from typing import Any

from _targets import record

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests import machine  # noqa: E402 - the browser and the answers of the tests
from tests.gateways.live import showroom  # noqa: E402

PERIOD = 0.1
"""Seconds between two pieces of news, as in agentserver/gateways/live/feed.py."""

FRAME = 17.0
"""Milliseconds of a frame at 60 a second, rounded up."""

COUNTED = (
    "LayoutCount",
    "RecalcStyleCount",
    "TaskDuration",
    "ScriptDuration",
    "LayoutDuration",
    "RecalcStyleDuration",
)

PAGES_OWN = ("ScriptDuration", "LayoutDuration", "RecalcStyleDuration")
OWN = "ms of CPU in 1/60 s, own work"
"""Script, layout and style of the page; painting without a graphics card is the machine's."""
LONG = "tasks of the page over 50 ms"

DRIVE = """
async ([hops, each, seconds, period]) => {
  let [changes, sent] = [0, 0];
  const watch = new MutationObserver((found) => { changes += found.length; });
  watch.observe(document.body, { attributes: true, childList: true, characterData: true, subtree: true });
  let long = 0;
  const tasks = new PerformanceObserver((list) => { long += list.getEntries().length; });
  tasks.observe({ type: "longtask" });
  const feed = window.feeds.at(-1);
  const queues = (at) => ({ clerk: [at % 3, 1 + at % 4], bank: [at % 2, at % 3] });
  let at = 0;
  const timer = setInterval(() => {
    const news = Array.from({ length: each }, (_, i) => ({ ...hops[(sent + i) % hops.length], at: Date.now() / 1000 }));
    sent += each;
    feed.onmessage({ data: JSON.stringify({ queues: queues(at++), waiting: 2, missed: 0, counted: [], hops: news }) });
  }, period * 1000);
  const frames = [];
  await new Promise((done) => {
    const began = performance.now();
    let last = began;
    const step = (now) => {
      frames.push(now - last);
      last = now;
      if (now - began < seconds * 1000) requestAnimationFrame(step);
      else done();
    };
    requestAnimationFrame(step);
  });
  clearInterval(timer);
  watch.disconnect();
  tasks.disconnect();
  return { frames: frames.slice(1), changes, sent, long };
}
"""


def hops() -> list[dict[str, Any]]:
    """Return a request's messages and refusals, as the stream has them."""
    rows = showroom.ANSWERS[f"conversations/{showroom.BLOCKED}"]["rows"]
    keys = ("event", "conversation", "sender", "to", "root", "code", "why")
    return [
        {key: row[key] for key in keys} for row in rows if not row["plumbing"] and row["event"] != "completed"
    ]


def measure(page: Any, rate: int, seconds: float) -> tuple[list[float], dict[str, float]]:
    """Drive a page; return the milliseconds of each frame, and the counted work per event."""
    session = page.context.new_cdp_session(page)
    session.send(
        "Performance.enable", {"timeDomain": "threadTicks"}
    )  # CPU of the thread, not the machine's load

    def metrics() -> dict[str, float]:
        found = session.send("Performance.getMetrics")["metrics"]
        return {each["name"]: each["value"] for each in found}

    before = metrics()
    each = round(rate * PERIOD)
    done = page.evaluate(DRIVE, [hops(), each, seconds, PERIOD])
    after = metrics()
    work = {"document changes": done["changes"] / done["sent"]}
    for name in COUNTED:
        unit = 1e6 if name.endswith("Duration") else 1
        label = f"{name.removesuffix('Duration')}, us of CPU" if unit > 1 else name
        work[label] = (after[name] - before[name]) * unit / done["sent"]
    work[OWN] = sum(after[name] - before[name] for name in PAGES_OWN) * 1000 / (seconds * 60)
    work[LONG] = done["long"]
    return done["frames"], work


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rate", type=int, default=100, help="events a second")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    path = machine.chromium()
    if path is None:
        print("SKIPPED: the page is measured in chromium, which is not here", flush=True)
        sys.exit(int(machine.in_ci()))
    from playwright.sync_api import sync_playwright

    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    medians, works = [], []
    print(
        f"{asked.rate} events a second, {asked.seconds:g} s a round; load of the machine {os.getloadavg()[0]:.1f}"
    )
    heads = f"{'median':>8}{'p95':>8}{'longest':>9}{'over 17':>9}{'frames':>8}{'a second':>10}"
    print(f"{'ms from frame to frame':<24}{heads}")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=[*sandbox, "--disable-dev-shm-usage"])
        for number in range(asked.rounds):
            context = browser.new_context(viewport={"width": 1280, "height": 900})
            showroom.Showroom().install(context)
            page = context.new_page()
            page.goto(f"{showroom.ADDRESS}/#/organism")
            page.get_by_role("group", name="Who may talk to whom").wait_for()
            frames, work = measure(page, asked.rate, asked.seconds)
            context.close()
            works.append(work)
            medians.append(statistics.median(frames))
            late = sum(one > FRAME for one in frames)
            rate = 1000 * len(frames) / sum(frames)
            p95 = statistics.quantiles(frames, n=20)[-1]
            figures = (
                f"{medians[-1]:>8.1f}{p95:>8.1f}{max(frames):>9.1f}{late:>9}{len(frames):>8}{rate:>10.1f}"
            )
            print(f"{f'round {number + 1}':<24}{figures}")
        browser.close()
    record("live view, ms of the median frame at 100 events/s", medians, FRAME)
    record("live view, ms of CPU of the page's own work in 1/60 s", [each[OWN] for each in works], FRAME)
    print(f"\n{'work, per event unless it says more':<36}{'least':>10}{'median':>10}")
    for name in works[0]:
        found = [work[name] for work in works]
        print(f"{name:<36}{min(found):>10.2f}{statistics.median(found):>10.2f}")


if __name__ == "__main__":
    main()
