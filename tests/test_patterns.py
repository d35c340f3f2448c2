"""Every regular expression of the package reads a hostile text in a time that its length bounds.

Steps of a regular expression cannot be counted. The processor's time for 10,000 characters takes their place: one that looks
at each character once, or a few dozen times, takes milliseconds, and one that looks back from each takes seconds.
"""

from __future__ import annotations

import importlib
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import agentserver

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(agentserver.__file__).parent
EXCEPT = {"__main__", "adapters", "scaffold"}
LENGTH = 10_000
LIMIT = 0.2
UNITS = (
    "a", "é", "0", "@", "@a.", "a.", "a.b@c", " ", "\t ", "\n", "a ", "<", "<!--", "<a ", '"', "'", "0.", "-", "_", "--", "(",
    "a(", "[", "{", '{"', " ,", ", ", "/", "//", "a/", "http://", "&", "&a", "=", "a=", ":", "a:", "%", "0x", "|", "\\", "1,",
)  # fmt: skip
METHODS = ("fullmatch", "match", "search", "sub", "finditer", "findall", "split")
BOUNDED = {  # read texts that were bounded before, or that have this form already
    ("agentserver.provenance.evidence.leaves", "_CLOCK"): "48 characters, by typed()",
    ("agentserver.wire.envelope", "_ATTRIBUTE"): "attributes that _TAG has matched",
}


def patterns() -> Iterator[tuple[str, str, re.Pattern[Any], tuple[str, ...]]]:
    """Find each compiled pattern of a module, with the methods that this module calls on it."""
    seen: set[int] = set()
    for path in sorted(PACKAGE.rglob("*.py")):
        source, parts = path.read_text("utf-8"), path.relative_to(PACKAGE.parent).with_suffix("").parts
        if "re.compile(" not in source or not EXCEPT.isdisjoint(parts):
            continue  # to import the others, and the SDKs that they need, takes seconds
        full = ".".join(parts).removesuffix(".__init__")
        for name, value in vars(importlib.import_module(full)).items():
            if isinstance(value, re.Pattern) and id(value) not in seen:
                seen.add(id(value))
                used = set(re.findall(rf"\b{re.escape(name)}\.(\w+)", source))
                yield full, name, value, tuple(one for one in METHODS if one in used) or ("fullmatch",)


def apply(pattern: re.Pattern[Any], method: str, text: Any) -> None:
    if method == "sub":
        pattern.sub(lambda found: found[0], text)
    elif method == "finditer":
        for _ in pattern.finditer(text):
            pass
    else:
        getattr(pattern, method)(text)


class TooLongError(Exception):
    pass


def test_no_pattern_looks_back_from_each_character() -> None:
    def raise_late(*_: object) -> None:
        raise TooLongError

    slow = []
    before = signal.signal(signal.SIGPROF, raise_late)
    try:
        for module, name, pattern, methods in patterns():
            if (module, name) in BOUNDED:
                continue
            for unit in UNITS:
                text: str | bytes = unit * (LENGTH // len(unit)) + "\x00"
                if isinstance(pattern.pattern, bytes):
                    text = text.encode()
                signal.setitimer(signal.ITIMER_PROF, LIMIT)
                try:
                    for method in methods:
                        apply(pattern, method, text)
                except TooLongError:
                    slow.append(f"{module}.{name} on {unit!r}")
                    break
                finally:
                    signal.setitimer(signal.ITIMER_PROF, 0.0)
    finally:
        signal.signal(signal.SIGPROF, before)
    assert slow == []


@pytest.mark.parametrize(("module", "name"), BOUNDED)
def test_no_exception_is_idle(module: str, name: str) -> None:
    assert isinstance(vars(importlib.import_module(module))[name], re.Pattern)
