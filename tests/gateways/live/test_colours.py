"""The contrast of each colour of a text with what it stands on, computed from the variables of the style sheet."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

STYLE = files("agentserver.gateways.live").joinpath("assets", "style.css").read_text("utf-8")
LEAST = 4.5
"""WCAG 2.2, success criterion 1.4.3, level AA."""
MARKS = 3.0
"""Success criterion 1.4.11: what has to be seen and is no text."""

GROUNDS = ("page", "panel", "well")
TEXTS = ("text", "quiet", "link", "good", "warn", "bad", "name")
OTHERS = [
    ("on-badge", "badge"),
    ("on-good", "good"),
    ("on-bad", "bad"),
    ("page", "text"),
    ("text", "agent"),
    ("quiet", "agent"),
]
"""What stands on something else: badges, buttons, the line of news, agents."""


def scheme(dark):
    light = STYLE[: STYLE.index("@media (prefers-color-scheme: dark)")]
    found = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", light))
    if dark:
        block = STYLE[STYLE.index("@media (prefers-color-scheme: dark)") :]
        changed = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", block[: block.index("\n}")]))
        assert changed.keys() == found.keys()
        found = changed
    return found


def luminance(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def test_contrast_is_that_of_the_definition():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("dark", [False, True])
def test_every_text_stands_out_from_what_it_stands_on(dark):
    colours = scheme(dark)
    pairs = [(text, ground) for text in TEXTS for ground in GROUNDS] + OTHERS
    weak = {(a, b): contrast(colours[a], colours[b]) for a, b in pairs}
    assert {pair: found for pair, found in weak.items() if found < LEAST} == {}


@pytest.mark.parametrize("dark", [False, True])
def test_lines_and_boxes_are_seen(dark):
    colours = scheme(dark)
    for ground in ("panel", "page"):
        assert contrast(colours["edge"], colours[ground]) >= MARKS


def test_no_colour_stands_outside_of_the_variables():
    rules = re.sub(r"--[a-z-]+: #[0-9a-f]{6};", "", STYLE)
    assert re.findall(r"#[0-9a-f]{3,8}\b|rgba?\(|hsl", rules) == []
    assert re.findall(r"opacity", rules) == []
