"""Values as XML text and back: one writer and one reader for each kind of scalar.

Writers are strict about Python types: XSD would accept the text of a wrong one, such as a number in a string.
"""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

DIGITS = 1000
"""Most digits before and after the point: below CPython's limit for int()."""

_ZONE = timedelta(hours=14)
_CONTROLS = "".join(chr(code) for code in range(32) if chr(code) not in "\t\n\r")
_NONCHARACTERS = "\ufffe\uffff"
_INT_LIMIT = 10**DIGITS


class ScalarKind(StrEnum):
    """The lexical family of a scalar."""

    STR = "str"
    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    DECIMAL = "Decimal"
    DATE = "date"
    TIME = "time"
    DATETIME = "datetime"
    BYTES = "bytes"


def is_xml_text(text: str) -> bool:
    """Check whether XML 1.0 can carry every character of ``text``.

    A search for each of the few forbidden characters is several times faster than one regular expression.
    """
    for char in _CONTROLS:
        if char in text:
            return False
    if text.isascii():
        return True
    if _NONCHARACTERS[0] in text or _NONCHARACTERS[1] in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return False
    return True


def escape(text: str) -> str:
    """Escape text content. A carriage return must be a reference, or parsing turns it into a line feed."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\r", "&#13;")


def escape_attribute(text: str) -> str:
    """Attribute content for double quotes; parsing would turn tab and line feed into spaces."""
    return escape(text).replace('"', "&quot;").replace("\n", "&#10;").replace("\t", "&#9;")


def _refuse(expected: str, value: object) -> TypeError:
    return TypeError(f"must be {expected}, not {type(value).__name__}")


def _write_str(value: Any) -> str:
    if type(value) is str:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    raise _refuse("str", value)


def _write_int(value: Any) -> str:
    if type(value) is not int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise _refuse("int", value)
        value = int(value)
    if not -_INT_LIMIT < value < _INT_LIMIT:
        raise ValueError(f"has more than {DIGITS} digits")
    return str(value)


def _write_float(value: Any) -> str:
    if type(value) is not float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise _refuse("float", value)
        try:
            value = float(value)
        except OverflowError:
            raise ValueError("is too large for a float") from None
    if math.isfinite(value):
        return float.__repr__(value)
    if math.isnan(value):
        return "NaN"
    return "INF" if value > 0 else "-INF"


def _write_bool(value: Any) -> str:
    if value is True:
        return "true"
    if value is False:
        return "false"
    raise _refuse("bool", value)


def _write_decimal(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (Decimal, int)):
        raise _refuse("Decimal", value)
    value = Decimal(value)
    if not value.is_finite():
        raise ValueError("must be finite: XML has no text for a Decimal that is not")
    if value.adjusted() >= DIGITS or -int(value.as_tuple().exponent) > DIGITS:
        raise ValueError(f"has more than {DIGITS} digits before or after the point")
    return format(value, "f")


def _write_date(value: Any) -> str:
    if isinstance(value, datetime) or not isinstance(value, date):
        raise _refuse("date", value)
    return value.isoformat()


def _write_zoned(value: datetime | time) -> str:
    offset = value.utcoffset()
    if value.tzinfo is not None and offset is None:
        raise ValueError("has a time zone without a UTC offset of its own")
    if offset is not None and (abs(offset) > _ZONE or offset % timedelta(minutes=1)):
        raise ValueError("has a UTC offset that XML cannot carry: whole minutes up to 14:00")
    return value.isoformat()


def _write_time(value: Any) -> str:
    if not isinstance(value, time):
        raise _refuse("time", value)
    return _write_zoned(value)


def _write_datetime(value: Any) -> str:
    if not isinstance(value, datetime):
        raise _refuse("datetime", value)
    return _write_zoned(value)


def _write_bytes(value: Any) -> str:
    if not isinstance(value, bytes):
        raise _refuse("bytes", value)
    return b64encode(value).decode()


WRITERS: Mapping[ScalarKind, Callable[[Any], str]] = {
    ScalarKind.STR: _write_str,
    ScalarKind.INT: _write_int,
    ScalarKind.FLOAT: _write_float,
    ScalarKind.BOOL: _write_bool,
    ScalarKind.DECIMAL: _write_decimal,
    ScalarKind.DATE: _write_date,
    ScalarKind.TIME: _write_time,
    ScalarKind.DATETIME: _write_datetime,
    ScalarKind.BYTES: _write_bytes,
}
"""Value to text. Raises TypeError for a wrong Python type and ValueError for a value without XSD form."""


BOOLS: Mapping[str, bool] = {"true": True, "1": True, "false": False, "0": False}
"""The texts of truth values without white space around them."""


def _read_decimal(text: str) -> Decimal:
    value = Decimal(text)
    if not value.is_finite():  # what a handler changed of the context may let any text be NaN
        raise ValueError("is no decimal number")
    return value


def _read_bool(text: str) -> bool:
    known = BOOLS.get(text)
    return BOOLS[text.strip()] if known is None else known


def _read_date(text: str) -> date:
    return date.fromisoformat(text.strip())


def _read_time(text: str) -> time:
    return time.fromisoformat(text.strip())


def _read_datetime(text: str) -> datetime:
    return datetime.fromisoformat(text.strip())


def _read_bytes(text: str | None) -> bytes:
    return b64decode("".join(text.split()), validate=True) if text else b""


READERS: Mapping[ScalarKind, Callable[[Any], Any]] = {
    ScalarKind.STR: str,
    ScalarKind.INT: int,
    ScalarKind.FLOAT: float,
    ScalarKind.BOOL: _read_bool,
    ScalarKind.DECIMAL: _read_decimal,
    ScalarKind.DATE: _read_date,
    ScalarKind.TIME: _read_time,
    ScalarKind.DATETIME: _read_datetime,
    ScalarKind.BYTES: _read_bytes,
}
"""Text that the schema accepted to value. Raises one of UNREADABLE for a text whose value Python has not."""

UNREADABLE = (ValueError, ArithmeticError, LookupError, TypeError, AttributeError)
"""The exceptions that a reader may raise."""


def is_readable(kind: ScalarKind, text: str) -> bool:
    """Check whether the text has a value."""
    try:
        READERS[kind](text)
    except UNREADABLE:
        return False
    return True


def plain(value: Any) -> Any:
    """Return the value of an enumeration's member; anything else as it is."""
    return value.value if isinstance(value, Enum) else value
