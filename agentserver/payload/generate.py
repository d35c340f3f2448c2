"""Python source of the decoder, the scalar check and the encoder of a payload class.

The check
reads what the decoder reads and calls no constructor; a record of plain text alone has none.
Every name in the source is made here or is a field name that Python accepted; every string is quoted by repr.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from agentserver.payload.fields.facets import NO_FACETS
from agentserver.payload.fields.field_table import Count, FieldKind, RecordType, Scalar
from agentserver.payload.fields.lexical import (
    BOOLS,
    READERS,
    WRITERS,
    ScalarKind,
    escape,
    escape_attribute,
    is_xml_text,
    plain,
)
from agentserver.payload.sample import WRONG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agentserver.payload.fields.field_table import Field, PayloadType


class Unencodable(ValueError):  # noqa: N818 - says what the value is
    """A value without a form in XML. The text names class and field, never the value."""


class Undecodable(ValueError):  # noqa: N818 - says what the element is
    """A valid element that the class itself refuses to be built from. The text names the class alone."""


class Functions(NamedTuple):
    """The functions that are made of a payload class.

    Args:
        decode: valid element to value; raises Undecodable.
        check: reads every scalar of an element that the schema accepts; raises one of UNREADABLE. None when all are
            plain text.
        encode: value to markup of characters that XML carries; raises Unencodable.
    """

    decode: Callable[[Any], Any]
    check: Callable[[Any], None] | None
    encode: Callable[[Any], str]


def functions(payload: PayloadType) -> Functions:
    """Return the functions of a class."""
    module = _Module(payload)
    source = "\n".join(module.iter_lines())
    exec(compile(source, f"<payload {payload.root}>", "exec"), module.names)  # noqa: S102 - source made here
    names = module.names
    return Functions(names["decode"], names.get("check_0"), names["encode"])


_QUICK = {
    ScalarKind.STR: (
        "v.replace('&', '&amp;').replace('<', '&lt;').replace('>', '&gt;').replace('\\r', '&#13;') "
        "if type(v) is str"
    ),
    ScalarKind.INT: f"str(v) if type(v) is int and -{10**18} < v < {10**18}",
    ScalarKind.FLOAT: "repr(v) if type(v) is float and v - v == 0.0",
    ScalarKind.BOOL: "'true' if v is True else 'false' if v is False",
    ScalarKind.DATETIME: "v.isoformat() if type(v) is datetime and v.tzinfo is UTC",
}
"""The work of the writers of the plainest values, as an expression without a call of Python.

A hop is made of calls.
"""

_PLAINEST = frozenset({ScalarKind.STR, ScalarKind.INT, ScalarKind.FLOAT, ScalarKind.BOOL})
"""The kinds whose written text the decoder always reads."""


class _Module:
    """The source of one payload class and the objects it refers to."""

    def __init__(self, payload: PayloadType) -> None:
        self._payload = payload
        self._index = {id(record): number for number, record in enumerate(payload.records)}
        self.names: dict[str, Any] = {
            "Misfit": Unencodable,
            "Undecodable": Undecodable,
            "MISSING": object(),
            "WRONG": WRONG,
            "careful": self._careful,
            "datetime": datetime,
            "UTC": UTC,
        }

    def iter_lines(self) -> Iterator[str]:
        for record in self._payload.records:
            yield from self._write_decoder(record)
            yield from self._write_checker(record)
            yield from self._write_encoder(record)
        root, space = self._payload.root, escape_attribute(self._payload.namespace)
        opened, closed = f'<{root} xmlns="{space}"', f"</{root}>"
        label = self._payload.cls.__qualname__
        # The outermost functions have the handlers of exceptions in them: a hop is made of calls.
        yield "def decode(e):"
        yield " try:"
        yield from self._write_reader(self._payload.record)
        refused = f"{label}: its constructor refuses the values"
        yield f" except WRONG: raise Undecodable({refused!r}) from None"
        yield "def encode(o, w='payload'):"
        yield " try:"
        yield from self._write_writer(self._payload.record, opened, closed)
        lacking = f"{label}: lacks one of its fields"  # deleted, or never set by a constructor of its own
        yield f" except AttributeError: raise Misfit({lacking!r}) from None"
        yield " return s if s.isascii() and s.isprintable() else careful(o, s)"

    def _careful(self, value: Any, markup: str) -> str:
        """Return the markup of a value, if XML can carry each of its characters. Raises Unencodable."""
        if is_xml_text(markup):
            return markup
        raise Unencodable(f"{_blame(self._payload.record, value)}: holds a character that XML cannot carry")

    def _is_nested(self, record: RecordType) -> bool:
        """Check whether a record is nested in others; the root has functions of its own."""
        return any(field.type is record for other in self._payload.records for field in other.fields)

    def _keep(self, stem: str, value: Any) -> str:
        """Make an object reachable from the source under a fresh name."""
        name = f"{stem}_{len(self.names)}"
        self.names[name] = value
        return name

    # decoding

    def _write_decoder(self, record: RecordType) -> Iterator[str]:
        if self._is_nested(record):
            yield f"def decode_{self._index[id(record)]}(e):"
            yield from self._write_reader(record)

    def _write_reader(self, record: RecordType) -> Iterator[str]:
        variables = {field.name: f"v{number}" for number, field in enumerate(record.fields)}
        for field in record.fields:
            yield f"  {variables[field.name]} = {self._write_initial(field)}"
        for field in record.list_fields_at(FieldKind.ATTRIBUTE):
            variable = variables[field.name]
            yield f"  t = e.get({field.xml!r})"
            yield f"  if t is not None: {variable} = {self._read(field.type, 't')}"
        yield from self._dispatch(record, variables)
        yield f"  return {self._keep('C', record.cls)}({', '.join(self._write_arguments(record, variables))})"

    def _dispatch(self, record: RecordType, variables: dict[str, str]) -> Iterator[str]:
        elements = record.list_fields_at(FieldKind.ELEMENT)
        if not elements:
            return
        yield "  for c in e:"
        yield "    t = c.tag"
        for number, field in enumerate(elements):
            variable, value = variables[field.name], self._write_value(field.type)
            act = f"{variable}.append({value})" if field.repeated else f"{variable} = {value}"
            yield f"    {'elif' if number else 'if'} t == {self._format_tag(field)!r}: {act}"

    def _write_initial(self, field: Field) -> str:
        if field.repeated:
            return "[]"
        if field.default is None or field.count is Count.OPTIONAL:
            return "None"
        return "MISSING" if field.default.factory else self._keep("D", field.default.value)

    def _write_arguments(self, record: RecordType, variables: dict[str, str]) -> Iterator[str]:
        for field in sorted(record.fields, key=lambda each: each.keyword):
            value = variables[field.name]
            if field.count is Count.TUPLE:
                value = f"tuple({value})"
            elif field.default and field.default.factory and not field.repeated:
                value = f"{self._keep('F', field.default.factory)}() if {value} is MISSING else {value}"
            yield f"{field.name}={value}" if field.keyword else value

    # checking

    def _write_checker(self, record: RecordType) -> Iterator[str]:
        if not _checked_at_all(record):
            return
        yield f"def check_{self._index[id(record)]}(e):"
        for field in record.list_fields_at(FieldKind.ATTRIBUTE):
            if _checked_at_all(field.type):
                yield f"  t = e.get({field.xml!r})"
                yield f"  if t is not None: {self._read(field.type, 't')}"
        elements = [
            field for field in record.list_fields_at(FieldKind.ELEMENT) if _checked_at_all(field.type)
        ]
        if elements:
            yield "  for c in e:"
            yield "    t = c.tag"
        for number, field in enumerate(elements):
            kind = field.type
            inner = (
                f"check_{self._index[id(kind)]}(c)"
                if isinstance(kind, RecordType)
                else self._read(kind, "c.text")
            )
            yield f"    {'elif' if number else 'if'} t == {self._format_tag(field)!r}: {inner}"

    def _format_tag(self, field: Field) -> str:
        return f"{{{self._payload.namespace}}}{field.xml}"

    def _write_value(self, kind: Scalar | RecordType) -> str:
        if isinstance(kind, RecordType):
            return f"decode_{self._index[id(kind)]}(c)"
        return self._read(kind, "c.text")

    def _read(self, kind: Scalar | RecordType, text: str) -> str:
        assert isinstance(kind, Scalar)
        reader = self._write_shared("read", kind.kind, READERS)
        read = f"({text} or '')" if kind.kind is ScalarKind.STR else f"{reader}({text})"
        if kind.kind is ScalarKind.BOOL:
            self.names["BOOLS"] = BOOLS
            read = f"(b if (b := BOOLS.get({text})) is not None else {read})"
        elif kind.kind is ScalarKind.DATETIME:
            read = f"datetime.fromisoformat({text}.strip())"
        if not kind.choices:
            return read
        table = {READERS[kind.kind](written): value for written, value in kind.choices}
        return f"{self._keep('T', table)}[{read}]"

    def _write_shared(self, stem: str, kind: ScalarKind, table: Any) -> str:
        name = f"{stem}_{kind.name.lower()}"
        self.names.setdefault(name, table[kind])
        return name

    # encoding

    def _write_encoder(self, record: RecordType) -> Iterator[str]:
        if self._is_nested(record):
            yield f"def encode_{self._index[id(record)]}(o, w):"
            yield from self._write_writer(record, "", "")
            yield "  return s"

    def _write_writer(self, record: RecordType, opened: str, closed: str) -> Iterator[str]:
        refusal = f": must be {record.cls.__qualname__}, not "
        yield f"  if type(o) is not {self._keep('C', record.cls)}:"
        yield f"    raise Misfit(w + {refusal!r} + type(o).__name__)"
        yield f"  s = {opened!r}"
        for field in record.list_fields_at(FieldKind.ATTRIBUTE):
            yield from self._write_attribute(record, field)
        yield "  s += '>'"
        for field in record.list_fields_at(FieldKind.ELEMENT):
            yield from self._write_element(record, field)
        if closed:
            yield f"  s += {closed!r}"

    def _write_attribute(self, record: RecordType, field: Field) -> Iterator[str]:
        value = f"{self._writer(record, field, escape_attribute)}(v)"
        yield f"  v = o.{field.name}"
        guard = "if v is not None: " if field.count is Count.OPTIONAL else ""
        opened = f' {field.xml}="'
        yield f"  {guard}s += {opened!r} + {value} + '\"'"

    def _write_element(self, record: RecordType, field: Field) -> Iterator[str]:
        if isinstance(field.type, RecordType):
            inner = f"encode_{self._index[id(field.type)]}(v, {_locate(record, field)!r})"
        else:
            inner = self._text(record, field)
        opened = f"<{field.xml}" if isinstance(field.type, RecordType) else f"<{field.xml}>"
        add = f"s += {opened!r} + {inner} + {f'</{field.xml}>'!r}"
        yield f"  v = o.{field.name}"
        if field.repeated:
            items = self._keep("L", _make_sequence(_locate(record, field)))
            yield f"  for v in v if type(v) is tuple or type(v) is list else {items}(v): {add}"
        elif field.count is Count.OPTIONAL:
            yield f"  if v is not None: {add}"
        else:
            yield f"  {add}"

    def _text(self, record: RecordType, field: Field) -> str:
        """Return the text of an element.

        In place for a value of the very type that is declared, else by the writer.
        """
        assert isinstance(field.type, Scalar)
        careful = f"{self._writer(record, field, escape)}(v)"
        quick = None if field.type.choices else _QUICK.get(field.type.kind)
        return careful if quick is None else f"({quick} else {careful})"

    def _writer(self, record: RecordType, field: Field, escaping: Callable[[str], str]) -> str:
        assert isinstance(field.type, Scalar)
        return self._keep("W", _check_list(field.type, _locate(record, field), escaping))


def _checked_at_all(kind: Scalar | RecordType) -> bool:
    """Check whether there is text that the schema may accept and the decoder refuse."""
    if isinstance(kind, RecordType):
        return any(_checked_at_all(field.type) for field in kind.fields)
    return kind.kind is not ScalarKind.STR or bool(kind.choices)


def is_doubtful(payload: PayloadType) -> bool:
    """Check whether it takes a look to know that the decoder reads what the encoder wrote and the schema accepts.

    Of text, truth values and numbers the writers leave nothing else.
    """
    scalars = [
        field.type for record in payload.records for field in record.fields if isinstance(field.type, Scalar)
    ]
    return any(scalar.choices or scalar.kind not in _PLAINEST for scalar in scalars)


_UNLIMITED = frozenset({ScalarKind.STR, ScalarKind.INT, ScalarKind.BOOL})
"""The kinds of which the encoder refuses each value that the schema would."""


def is_assured(payload: PayloadType) -> bool:
    """Check whether the schema accepts whatever the encoder writes: choices, and texts and numbers without limits."""
    return all(_is_unlimited(field) for record in payload.records for field in record.fields)


def _is_unlimited(field: Field) -> bool:
    if field.place is not FieldKind.ELEMENT or field.minimum or field.maximum is not None:
        return False
    kind = field.type
    if not isinstance(kind, Scalar):
        return True  # the fields of its record are looked at themselves
    return bool(kind.choices) or (kind.facets == NO_FACETS and kind.kind in _UNLIMITED)


def _locate(record: RecordType, field: Field) -> str:
    return f"{record.cls.__qualname__}.{field.name}"


def _make_sequence(place: str) -> Callable[[Any], Any]:
    def items(value: Any) -> Any:
        if not isinstance(value, (list, tuple)):
            raise Unencodable(f"{place}: must be a list or tuple, not {type(value).__name__}")
        return value

    return items


def _check_list(scalar: Scalar, place: str, escaping: Callable[[str], str]) -> Callable[[Any], str]:
    """Return the writer of one field: type check, text, escaping where the text can need it."""
    write = _make_choice(scalar) if scalar.choices else WRITERS[scalar.kind]
    if scalar.kind is not ScalarKind.STR:
        escaping = str

    def check_item(value: Any) -> str:
        try:
            return escaping(write(value))
        except (TypeError, ValueError) as error:
            raise Unencodable(f"{place}: {error}") from None

    return check_item


def _make_choice(scalar: Scalar) -> Callable[[Any], str]:
    known = {(type(value), plain(value)): written for written, value in scalar.choices}

    def write(value: Any) -> str:
        try:
            return known[type(value), plain(value)]
        except (KeyError, TypeError):
            name = scalar.enum.__name__ if scalar.enum else "one of its literal values"
            raise TypeError(f"must be {name}, not {type(value).__name__}") from None

    return write


def _blame(record: RecordType, value: Any) -> str:
    """Return the first field whose text XML cannot carry; empty if all are fine."""
    for field in record.fields:
        held = getattr(value, field.name)
        items = held if field.repeated else (held,)
        found = next(filter(None, (_blame_item(record, field, item) for item in items)), "")
        if found:
            return found
    return ""


def _blame_item(record: RecordType, field: Field, item: Any) -> str:
    if isinstance(field.type, RecordType) and item is not None:
        return _blame(field.type, item)
    unfit = isinstance(item, str) and not is_xml_text(item)
    return f"{record.cls.__qualname__}.{field.name}" if unfit else ""
