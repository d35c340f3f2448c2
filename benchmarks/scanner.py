"""How fast a text is searched for handoff requests: ordinary texts, and those that are made to take long.

Prints megabytes a second of CPU for each, whole and in pieces of 4 kB, with the aim. A busy machine shifts them, so
that only --check makes them the exit code.

    ./run bench scanner [--check] [--megabytes N]
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from _targets import record

from agentserver.handoff.managed.scanner import Scanner

AIM = 20.0
PIECE = 4096
REQUEST = '{"type":"handoff_request","target_agent":"a","payload":{"intent":"x","params":{"t":"L-1"}}}'


def texts(size: int) -> dict[str, str]:
    """The texts by name, each of about so many characters."""

    def repeat_part(part: str) -> str:
        return part * (size // len(part))

    rows = [
        {"id": at, "name": f"user {at}", "tags": ["a", "b"], "type": "x", "in": {"k": [1, 2, 3]}}
        for at in range(size // 90)
    ]
    half = size // 6
    return {
        "prose": repeat_part("The memo says [1] that {it} was moved. "),
        "JSON": json.dumps(rows),
        '{" again and again': repeat_part('{"'),
        "objects that never end": repeat_part('{"a":'),
        "objects that all end": '{"a":' * half + "1" + "}" * half,
        "members and objects": repeat_part('{"a":1,"b":'),
        "arrays that never end": repeat_part("["),
        "small objects": repeat_part('{"a":1} '),
        "objects that fail": repeat_part('{"a":1x '),
        "objects that fail late": repeat_part('{"a":1,"b":[1,x '),
        "objects in a string": '{"a":"' + repeat_part('{ "b" : '),
        "requests": repeat_part(REQUEST),
    }


def rate(text: str, piece: int) -> float:
    """Megabytes a second of CPU."""
    scanner = Scanner()
    began = time.process_time()
    for at in range(0, len(text), piece):
        scanner.feed(text[at : at + piece])
    scanner.end()
    return len(text) / (time.process_time() - began) / 1e6


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--megabytes", type=float, default=10.0)
    options = parser.parse_args()
    print(f"{'MB/s (aim ' + format(AIM, '.0f') + ')':<26}{'whole':>8}{'pieces':>8}")
    slow = False
    for name, text in texts(int(options.megabytes * 1e6)).items():
        whole, pieces = rate(text, len(text)), rate(text, PIECE)
        slow = slow or min(whole, pieces) < AIM
        print(f"{name:<26}{whole:>8.1f}{pieces:>8.1f}")
        record(f"scanner, {name}, MB/s", [min(whole, pieces)], AIM, least=True)
    return int(options.check and slow)


if __name__ == "__main__":
    sys.exit(main())
