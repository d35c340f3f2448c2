"""The design system of the live view: names allowed in its style sheet, and the contrast of each text, computed."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

STYLE = re.sub(
    r"/\*.*?\*/", "", files("agentserver.gateways.live").joinpath("assets", "style.css").read_text("utf-8"), flags=re.DOTALL
)  # fmt: skip
LEAST = 4.5
"""WCAG 2.2, success criterion 1.4.3, level AA."""
MARKS = 3.0
"""Success criterion 1.4.11, for visible elements other than text."""
BREAKPOINTS = {"(min-width: 66rem)", "(max-width: 40rem)", "(max-width: 35rem)"}
"""Conditions cannot name a property, so their widths are here: two columns, a phone, a narrow table."""

BLOCKS = re.findall(r":root \{(.*?)\}", STYLE, flags=re.DOTALL)
RULES = STYLE[STYLE.index("* { box-sizing") :]
COLOUR = r"#[0-9a-f]{6}"

GROUNDS = ("page", "panel", "well")
TEXTS = ("text", "quiet", "accent", "allowed", "waiting", "refused", "untrusted", "known")


def values(block):
    return dict(re.findall(r"--([a-z0-9-]+): ([^;]+);", block))


def scheme(dark):
    light = values(BLOCKS[0])
    return {**light, **values(BLOCKS[1])} if dark else light


def luminance(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def pairs():
    """Each text with each ground, and each text and background that one rule sets."""
    found = {(text, ground) for text in TEXTS for ground in GROUNDS}
    for rule in re.findall(r"\{([^{}]*)\}", RULES):
        text = re.search(r"(?<![-a-z])color: var\(--([a-z-]+)\)", rule)
        ground = re.search(r"background: var\(--([a-z-]+)\)", rule)
        if text and ground:
            found.add((text[1], ground[1]))
    return found


def test_contrast_is_that_of_the_definition():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_text_contrasts_with_its_background(dark):
    colours = scheme(dark)
    assert {("on-refused", "refused"), ("untrusted", "untrusted-soft"), ("page", "text")} <= pairs()
    weak = {(a, b): contrast(colours[a], colours[b]) for a, b in pairs()}
    assert {pair: found for pair, found in weak.items() if found < LEAST} == {}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_lines_and_boxes_are_seen(dark):
    colours = scheme(dark)
    for ground in ("panel", "page"):
        assert contrast(colours["edge"], colours[ground]) >= MARKS


def test_both_schemes_name_every_colour():
    light, dark = map(values, BLOCKS)
    coloured = {name for name, value in light.items() if re.fullmatch(COLOUR, value)}
    assert len(BLOCKS) == 2
    assert dark.keys() == coloured
    assert all(re.fullmatch(COLOUR, value) for value in dark.values())


def test_colours_and_sizes_are_only_in_the_block_of_the_design_system():
    bodies = " ".join(re.findall(r"\{([^{}]*)\}", RULES))
    assert re.findall(r"#[0-9a-f]{3,8}\b|\brgba?\(|\bhsla?\(|\boklch\(|color-mix", bodies) == []
    words = "white|black|red|green|blue|gray|grey|orange|yellow|purple|silver"
    assert re.findall(rf"(?:color|background|fill|stroke|border[a-z-]*): [^;]*\b(?:{words})\b", bodies) == []
    assert re.findall(r"(?<![\w.-])-?[\d.]*[1-9][\d.]*(?:px|rem|pt|cm|mm|in|ch|ex)\b", bodies) == []
    assert re.findall(r"\bopacity\b", bodies) == []  # the contrast of what it covers would be another


def test_conditions_have_no_other_widths():
    assert set(re.findall(r"\((?:min|max)-width: [^)]*\)", STYLE)) == BREAKPOINTS


def test_every_property_that_is_used_has_a_value_and_every_value_is_used():
    used = set(re.findall(r"var\(--([a-z0-9-]+)", STYLE))
    computed = {"depth", "part", "from", "natural"}  # set by scripts
    assert used - values(BLOCKS[0]).keys() == computed
    assert values(BLOCKS[0]).keys() - used == set()
