"""The corpus of JSON bombs: small texts that cost much to whoever reads them without counting first.

Each is at most a megabyte. Those that name a reader's own fields are made for it with ``aimed``.
"""

from __future__ import annotations

MEGABYTE = 1_000_000

PLAIN = {
    "objects": b"[" + b",".join([b"{}"] * 330_000) + b"]",
    "numbers": b"[" + b",".join([b"1"] * 490_000) + b"]",
    "texts": b"[" + b",".join([b'""'] * 330_000) + b"]",
    "escaped texts": b"[" + b",".join([b'"\\""'] * 190_000) + b"]",
    "members": b"{" + b",".join(b'"%d":0' % each for each in range(90_000)) + b"}",
    "a member again and again": b"{" + b",".join([b'"a":0'] * 160_000) + b"}",
    "arrays in arrays": b"[" * 400_000 + b"]" * 400_000,
    "arrays that are never closed": b"[" * 900_000,
    "objects in objects": b'{"a":' * 150_000 + b"0" + b"}" * 150_000,
    "a number of a million digits": b"1" * MEGABYTE,
    "a fraction of a million digits": b"0." + b"1" * (MEGABYTE - 2),
    "a number beyond all": b"[1e999999999]",
    "half a pair": b'["\\ud800"]',
    "UTF-16": ("[" + ",".join(["{}"] * 150_000) + "]").encode("utf-16"),
    "no text": b"\xff" * 1000,
    "nothing": b"",
}


def aim_bombs(frame: bytes) -> dict[str, bytes]:
    """The bombs with each in the place of ``%s`` of a text that a reader would else take."""
    return {
        name: frame % bomb for name, bomb in PLAIN.items() if name not in ("UTF-16", "no text", "nothing")
    }
