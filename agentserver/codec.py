"""Frozen values as plain JSON values, and back, derived from the annotations of their classes.

There are two styles: lists by position for what a journal keeps, objects by name for what programs read. Classes in a
union have tags, kept bytes have a version. Must not know any value of the project, nor where bytes go. JSON of other
parties is counted before it is read (``foreign_json``).
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cached_property, partial
from types import MappingProxyType, NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    Literal,
    NamedTuple,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic_core import PydanticSerializationError, to_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    _Writer: TypeAlias = Callable[[Any], Any]
    _Reader: TypeAlias = Callable[[Any], Any]

__all__ = [
    "NAMES",
    "ROWS",
    "Field",
    "ValueCodec",
    "ValueRefusedError",
    "ValueStyle",
    "list_fields",
    "write_json",
    "write_pointer",
]

T = TypeVar("T")

STEPS: Final = 8
"""Steps of a path that a refusal shows."""
STEP: Final = 64
"""Characters of a step."""


class ValueRefusedError(ValueError):
    """Plain value that does not fit. Quotes only its path, with foreign names escaped.

    Args:
        rule: what must hold.
    """

    def __init__(self, rule: str) -> None:
        super().__init__(rule)
        self.rule = rule
        self._steps: list[int | str] = []

    def add_step(self, step: int | str) -> ValueRefusedError:
        """Put a step in front of the path, which is built from its end."""
        self._steps.append(step)
        return self

    @property
    def pointer(self) -> str:
        """The place as a JSON pointer (RFC 6901); empty for the whole value."""
        return write_pointer(self._steps[::-1])

    def __str__(self) -> str:
        """Return the reason on one line."""
        return f"{self.pointer or '(value)'}: {self.rule}"


def write_pointer(steps: Sequence[int | str]) -> str:
    """Write the first steps of a path as a JSON pointer (RFC 6901)."""
    return "".join(f"/{_escape_step(step)}" for step in steps[:STEPS])


def _escape_step(step: int | str) -> str:
    """Escape a step of a JSON pointer for logs: a sender may have chosen it."""
    printable = repr(str(step)[:STEP])[1:-1]
    return printable[:STEP].replace("~", "~0").replace("/", "~1")


class ValueStyle(NamedTuple):
    """Style in which classes are plain values.

    Args:
        by_name: whether they are objects by name; else lists by position, without defaults at the end.
        tags: the tags of classes in unions; every other class goes by its name. One with an empty tag is written
            without any, and not read.
        tag: the member of an object that holds the tag.
        names: the members of objects that are called otherwise than their fields.
        lenient: whether members that are not known are skipped; else they are refused.
        sparse: whether members of objects that have their defaults are left out.
        checks: more that must hold of the values of a class; raise LookupError, TypeError or ValueError.
    """

    by_name: bool = False
    tags: Mapping[type, str] = MappingProxyType({})
    tag: str = "kind"
    names: Mapping[str, str] = MappingProxyType({})
    lenient: bool = False
    sparse: bool = False
    checks: Mapping[type, Callable[[Any], object]] = MappingProxyType({})


ROWS: Final = ValueStyle()
NAMES: Final = ValueStyle(by_name=True)


class ValueCodec(Generic[T]):
    """Writes and reads the values of one type.

    Supports None, bool, int, float, str, bytes, enumerations of texts, literals, lists, tuples, frozen sets of texts,
    mappings from texts, named tuples, dataclasses, unions of these, and Any for plain values. Of the members
    of a union at most one may be written as a text, and tags distinguish several classes.

    Args:
        kind: the type. Its codec is derived at the first use; TypeError for a type that is not supported.
        scope: what annotations name that their modules import for type checkers only.
        style: of classes.
        version: of the bytes that ``dump`` writes; None for bytes without one.
    """

    def __init__(
        self,
        kind: Any,
        scope: Iterable[type] | Mapping[str, Any] = (),
        style: ValueStyle = ROWS,
        version: int | None = None,
    ) -> None:
        self.kind, self.style, self.version = kind, style, version
        self.scope = scope if isinstance(scope, Mapping) else {one.__name__: one for one in scope}

    @cached_property
    def _form(self) -> _Form:
        return _Derivation(self.scope, self.style).form(self.kind)

    def plain(self, value: T) -> Any:
        """Give the plain value, which ``write_json`` takes. Raises TypeError for a class that its union has not."""
        write = self._form.write
        return value if write is None else write(value)

    def value(self, plain: Any) -> T:
        """Make the value of a plain one. Raises ValueRefusedError."""
        value: T = self._form.read(plain)
        return value

    def dump(self, value: T) -> bytes:
        """Write a value as JSON text, in a list after the version if there is one. Raises as ``plain`` does."""
        write, version = self._form.write, self.version
        plain: Any = value if write is None else write(value)
        if version is not None:
            plain = (version, plain)
        try:
            return to_json(plain, inf_nan_mode="constants")
        except (PydanticSerializationError, UnicodeEncodeError):  # ``write_json`` knows what to do
            return write_json(plain)

    def load(self, data: bytes | str) -> T:
        """Read what ``dump`` has written. Raises ValueRefusedError."""
        try:
            plain = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise ValueRefusedError("must be JSON text") from error
        if self.version is None:
            return self.value(plain)
        if not isinstance(plain, list) or len(plain) != 2 or type(plain[0]) is not int:  # noqa: PLR2004 - a pair
            raise ValueRefusedError("must be a version and a value")
        if plain[0] != self.version:
            raise ValueRefusedError(f"has format {plain[0]}, and only format {self.version} is read here")
        return self.value(plain[1])


def write_json(plain: object) -> bytes:
    """Write a plain value as compact JSON; texts that are not Unicode survive."""
    try:
        return to_json(plain, inf_nan_mode="constants")
    except (PydanticSerializationError, UnicodeEncodeError):  # the one for values, the other for keys
        return json.dumps(plain, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


class Field(NamedTuple):
    """Field of a class. ``hint`` is resolved; ``default`` makes the default, if there is one."""

    name: str
    hint: Any
    default: Callable[[], Any] | None


def list_fields(kind: Any, scope: Mapping[str, Any]) -> tuple[Field, ...] | None:
    """List the fields of a named tuple or a dataclass, in order; None for another type.

    Raises NameError for an annotation that names what neither its module nor ``scope`` has.
    """
    if is_dataclass(kind):
        hints = get_type_hints(kind, None, dict(scope))
        return tuple(Field(one.name, hints[one.name], _find_default(one)) for one in fields(kind) if one.init)
    if isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields"):
        hints, defaults = get_type_hints(kind, None, dict(scope)), kind._field_defaults  # type: ignore[attr-defined]
        return tuple(
            Field(name, hints[name], _make_constant(defaults[name]) if name in defaults else None)
            for name in kind._fields
        )
    return None


def _find_default(one: Any) -> Callable[[], Any] | None:
    if one.default is not MISSING:
        return _make_constant(one.default)
    factory: Callable[[], Any] | None = None if one.default_factory is MISSING else one.default_factory
    return factory


def _make_constant(value: Any) -> Callable[[], Any]:
    return lambda: value


class _Form(NamedTuple):
    """Both directions of a type. ``write`` is None if JSON writers take its values unchanged.

    ``present`` is the writer of values that are not None, where None is one too; ``items`` is the writer of each item
    of a list.
    """

    write: _Writer | None
    read: _Reader
    present: _Writer | None = None
    items: _Writer | None = None


_LISTS: Final = (list, tuple)
_BASE64: Final = "base64"


class _Derivation:
    """Derives the forms of types, each class once."""

    def __init__(self, scope: Mapping[str, Any], style: ValueStyle) -> None:
        self._scope, self._style = scope, style
        self._forms: dict[Any, _Form] = {}
        self._classes: dict[type, _Form | None] = {}
        self._tagging: list[type] = []

    def form(self, hint: Any) -> _Form:
        """Derive the form of a type. Raises TypeError for an unsupported type."""
        known = self._forms.get(hint)
        if known is None:
            known = self._forms[hint] = self._derive(hint)
        return known

    def _derive(self, hint: Any) -> _Form:  # noqa: PLR0911 - one for each kind of type
        known = _SCALARS.get(hint) if isinstance(hint, type) else None
        if known is not None:
            return known
        origin, arguments = get_origin(hint), get_args(hint)
        if hint is Any or hint is object:
            return _Form(None, lambda plain: plain)
        if origin in (Union, UnionType):
            return self._derive_union(arguments)
        if origin is Literal:
            return _Form(None, _read_one_of(arguments))
        if origin in (list, tuple, Sequence, frozenset):
            return self._list(origin, arguments, hint)
        if origin in (dict, Mapping) and arguments[0] is str:
            return self._derive_mapping(origin, self.form(arguments[1]))
        if isinstance(hint, type) and issubclass(hint, str) and issubclass(hint, Enum):
            return _Form(str.__str__, _read_enum(hint))  # JSON writers would ask Python for its value
        if _has_fields(hint):
            return self._derive_class(hint)
        raise TypeError(f"values of {hint} cannot be written: no form is known for it")

    def _list(self, origin: Any, arguments: tuple[Any, ...], hint: Any) -> _Form:
        if origin is tuple and arguments[-1] is not Ellipsis:
            return _make_tuple_form([self.form(one) for one in arguments])
        item = self.form(arguments[0])
        if origin is frozenset:
            if arguments[0] is not str:
                raise TypeError(f"values of {hint} cannot be written: sets hold texts")
            return _Form(sorted, _read_list(item.read, _collect_distinct))
        write = item.write
        writer: _Writer | None = list if self._style.by_name else None
        if write is not None:
            writer = lambda value: [*map(write, value)]  # noqa: E731 - one of two
        return _Form(writer, _read_list(item.read, list if origin is list else tuple), items=write)

    def _derive_mapping(self, origin: Any, item: _Form) -> _Form:
        write, read = item.write, item.read

        def writes(value: Mapping[str, Any]) -> dict[str, Any]:
            return dict(value) if write is None else {name: write(one) for name, one in value.items()}

        def reads(plain: Any) -> Mapping[str, Any]:
            if not isinstance(plain, dict):
                raise ValueRefusedError("must be an object")
            found: dict[str, Any] = {}
            for name, one in plain.items():
                try:
                    found[name] = read(one)
                except ValueRefusedError as error:
                    raise error.add_step(name) from None
            return found if origin is dict else MappingProxyType(found)

        return _Form(writes, reads)

    def _derive_class(self, kind: type) -> _Form:
        if kind in self._classes:
            known = self._classes[kind]
            return self._make_lazy_form(kind) if known is None else known
        self._classes[kind] = None  # it may be a part of itself
        build_form = _object_form if self._style.by_name else _make_row_form
        parts = list_fields(kind, self._scope) or ()
        form = build_form(kind, parts, [self.form(one.hint) for one in parts], self._style)
        if kind in self._style.checks:
            form = _Form(form.write, _read_checked(form.read, self._style.checks[kind]))
        self._classes[kind] = form
        return form

    def _make_lazy_form(self, kind: type) -> _Form:
        """Make a form that asks for the one of a class when it is used."""

        def form() -> _Form:
            known = self._classes[kind]
            assert known is not None
            return known

        def write(value: Any) -> Any:
            writer = form().write
            return value if writer is None else writer(value)

        return _Form(write, lambda plain: form().read(plain))

    def _derive_union(self, members: tuple[Any, ...]) -> _Form:
        rest = [one for one in members if one is not NoneType]
        if len(rest) == 1:
            return _make_optional(self.form(rest[0]))
        classes = [one for one in rest if _has_fields(one)]
        plainer = [one for one in rest if not _has_fields(one)]
        readers: dict[type, _Reader] = {}
        writers: dict[type, _Writer | None] = {}
        for one in plainer:
            form = self.form(one)
            self._claim(readers, _list_plain_types(one, rest), form.read, members)
            writers.update(dict.fromkeys(_list_value_types(one), form.write))
        if len(classes) == 1:
            form = self.form(classes[0])
            self._claim(readers, [dict if self._style.by_name else list], form.read, members)
            writers[classes[0]] = form.write
        elif classes:
            self._claim(readers, [dict if self._style.by_name else list], self._read_tagged(classes), members)
            writers.update({one: self._write_tagged(one) for one in classes})
        if len(rest) < len(members):
            readers[NoneType], writers[NoneType] = _SCALARS[NoneType].read, None
        return _Form(_write_any(writers), _read_any(readers))

    @staticmethod
    def _claim(
        readers: dict[type, _Reader], plain: Iterable[type], read: _Reader, members: tuple[Any, ...]
    ) -> None:
        for one in plain:
            if one in readers:
                raise TypeError(f"a union of {members} cannot be written: two of it would look the same")
            readers[one] = read

    def _find_tag(self, kind: type) -> str:
        return self._style.tags.get(kind, kind.__name__)

    def _write_tagged(self, kind: type) -> _Writer:
        tag, write = self._find_tag(kind), self.form(kind).write
        if not self._style.by_name:
            parts = list_fields(kind, self._scope) or ()
            if self._classes[kind] is None or kind in self._tagging:  # it is a part of itself
                return lambda value: (tag, *write(value)) if write else (tag, *value)
            self._tagging.append(kind)
            forms = [self.form(one.hint) for one in parts]
            self._tagging.remove(kind)
            return _compile_row_writer(kind, parts, forms, tag)
        assert write is not None
        return (lambda value: {self._style.tag: tag, **write(value)}) if tag else write

    def _read_tagged(self, kinds: Iterable[type]) -> _Reader:
        readers = {self._find_tag(kind): self.form(kind).read for kind in kinds if self._find_tag(kind)}
        unknown = f"must be one of the kinds {', '.join(sorted(readers))}"
        tag = self._style.tag if self._style.by_name else 0

        def read(plain: Any) -> Any:
            name = (plain.get(tag) if self._style.by_name else plain[0]) if plain else None
            reader = readers.get(name) if isinstance(name, str) else None
            if reader is None:
                raise ValueRefusedError(unknown).add_step(tag)
            if not self._style.by_name:
                return reader(plain[1:])
            return reader({name: one for name, one in plain.items() if name != tag})

        return read


def _has_fields(hint: Any) -> bool:
    """Check for a named tuple or a dataclass."""
    return isinstance(hint, type) and (
        is_dataclass(hint) or (issubclass(hint, tuple) and hasattr(hint, "_fields"))
    )


def _read_checked(read: _Reader, check: Callable[[Any], object]) -> _Reader:
    def reads(plain: Any) -> Any:
        value = read(plain)
        try:
            check(value)
        except (LookupError, TypeError, ValueError):
            raise ValueRefusedError("must hold values that belong together") from None
        return value

    return reads


def _make_optional(form: _Form) -> _Form:
    write, read, *_ = form
    writer = None if write is None else lambda value: None if value is None else write(value)
    return _Form(writer, lambda plain: None if plain is None else read(plain), write)


def _list_plain_types(hint: Any, members: Sequence[Any]) -> Sequence[type]:
    """Return the types of the plain values of a member of a union that has no fields."""
    origin = get_origin(hint)
    if origin is Literal:
        return tuple({type(one) for one in get_args(hint)})
    if origin is not None:
        return (dict,) if origin in (dict, Mapping) else (list,)
    if hint is float:
        return (float,) if int in members else (float, int)
    if hint is bytes:
        return str, dict
    return (str,) if issubclass(hint, str) else (hint,)


def _list_value_types(hint: Any) -> Sequence[type]:
    """Return the types of the values of a member of a union that has no fields."""
    origin = get_origin(hint)
    if origin is Literal:
        return tuple({type(one) for one in get_args(hint)})
    if origin in (dict, Mapping):
        return dict, MappingProxyType
    if hint is float:
        return float, int
    return (origin or hint,)


def _write_any(writers: Mapping[type, _Writer | None]) -> _Writer | None:
    if not any(writers.values()):
        return None

    def write(value: Any) -> Any:
        kind = type(value)
        if kind not in writers:
            raise TypeError(
                f"a {kind.__name__} cannot be written where one of {_list_names(writers)} belongs"
            )
        writer = writers[kind]
        return value if writer is None else writer(value)

    return write


def _list_names(kinds: Iterable[type]) -> str:
    return ", ".join(sorted(one.__name__ for one in kinds))


def _read_any(readers: Mapping[type, _Reader]) -> _Reader:
    rule = f"must be one of {', '.join(sorted(_PLAIN[one] for one in readers))}"

    def read(plain: Any) -> Any:
        reader = readers.get(list if isinstance(plain, tuple) else type(plain))
        if reader is None:
            raise ValueRefusedError(rule)
        return reader(plain)

    return read


def _make_tuple_form(items: Sequence[_Form]) -> _Form:
    """Return the form of a tuple of items of their own types."""
    writers = [(place, one.write) for place, one in enumerate(items) if one.write is not None]
    readers = [one.read for one in items]

    def write(value: tuple[Any, ...]) -> list[Any]:
        row = list(value)
        for place, writer in writers:
            row[place] = writer(row[place])
        return row

    def read(plain: Any) -> tuple[Any, ...]:
        if not isinstance(plain, _LISTS) or len(plain) != len(readers):
            raise ValueRefusedError(f"must be a list of {len(readers)}")
        return tuple(_read_items(readers, plain, range(len(readers))))

    return _Form(write if writers else None, read)


def _read_items(readers: Sequence[_Reader], plain: Sequence[Any], names: Sequence[int | str]) -> list[Any]:
    found: list[Any] = []
    try:
        for reader, one in zip(readers, plain, strict=False):
            found.append(reader(one))
    except ValueRefusedError as error:
        raise error.add_step(names[len(found)]) from None
    return found


def _read_list(item: _Reader, make: Callable[[list[Any]], Any]) -> _Reader:
    def read(plain: Any) -> Any:
        if not isinstance(plain, _LISTS):
            raise ValueRefusedError("must be a list")
        found: list[Any] = []
        try:
            for one in plain:
                found.append(item(one))  # noqa: PERF401 - how many there are is the place of a refused one
        except ValueRefusedError as error:
            raise error.add_step(len(found)) from None
        return make(found)

    return read


def _collect_distinct(found: list[str]) -> frozenset[str]:
    distinct = frozenset(found)
    if len(distinct) < len(found):
        raise ValueRefusedError("must hold each item once")
    return distinct


def _make_row_form(kind: type, parts: Sequence[Field], forms: Sequence[_Form], _: ValueStyle) -> _Form:
    """Return the form of a class as a list by position, without defaults at its end."""
    names, readers = [one.name for one in parts], [one.read for one in forms]
    total = len(parts)
    required = next((place for place, one in enumerate(parts) if one.default is not None), total)

    def read(plain: Any) -> Any:
        if not isinstance(plain, _LISTS):
            raise ValueRefusedError("must be a list")
        if not required <= len(plain) <= total:
            raise ValueRefusedError(f"must be a list of {required} to {total}")
        return kind(*_read_items(readers, plain, names))

    if required == total and issubclass(kind, tuple) and not any(one.write for one in forms):
        return _Form(None, read)
    return _Form(_compile_row_writer(kind, parts, forms), read)


def _compile_row_writer(
    kind: type, parts: Sequence[Field], forms: Sequence[_Form], tag: str | None = None
) -> _Writer:
    """Compile the function that makes a row: a journal writes several of them for each step."""
    fields = [f"f{place}" for place in range(len(parts))]
    known: dict[str, Any] = {}
    items = [] if tag is None else [repr(tag)]
    for field, (write, _, present, each) in zip(fields, forms, strict=True):
        known[f"w{field}"] = present or each or write
        call = f"w{field}({field})" if present or not each else f"[*map(w{field}, {field})]"
        items.append(f"None if {field} is None else {call}" if present else call if write else field)
    if issubclass(kind, tuple):
        lines = [f" {', '.join(fields)}, = value"] if fields else []
    else:
        lines = [f" {field} = value.{one.name}" for field, one in zip(fields, parts, strict=True)]
    ends = list(range(len(items) - len(parts) + 1, len(items) + 1))
    for field, one, end in reversed(list(zip(fields, parts, ends, strict=True))):
        if one.default is None:
            break
        known[f"d{field}"] = one.default()
        lines.append(f" if {field} != d{field}: return {_format_tuple(items[:end])}")
        items = items[: end - 1]
    source = "\n".join(["def write(value):", *lines, f" return {_format_tuple(items)}"])
    exec(compile(source, f"row of {kind.__name__}", "exec"), known)  # noqa: S102 - source made here
    written: _Writer = known["write"]
    return written


def _format_tuple(items: Sequence[str]) -> str:
    return f"({', '.join(items)},)" if items else "()"


def _object_form(kind: type, parts: Sequence[Field], forms: Sequence[_Form], style: ValueStyle) -> _Form:
    """Return the form of a class as an object by name."""
    columns = [
        (one.name, style.names.get(one.name, one.name), form, one.default is None)
        for one, form in zip(parts, forms, strict=True)
    ]
    known = {name for _, name, _, _ in columns}
    defaults = [one.default() if one.default and style.sparse else MISSING for one in parts]
    written = [
        (*column[:2], column[2].write, default) for column, default in zip(columns, defaults, strict=True)
    ]

    def read(plain: Any) -> Any:
        if not isinstance(plain, dict):
            raise ValueRefusedError("must be an object")
        found: dict[str, Any] = {}
        for field, name, (_, reader, *_), required in columns:
            if name in plain:
                try:
                    found[field] = reader(plain[name])
                except ValueRefusedError as error:
                    raise error.add_step(name) from None
            elif required:
                raise ValueRefusedError("must be there").add_step(name)
        if not style.lenient and len(found) < len(plain):
            raise ValueRefusedError("is not known here").add_step(
                next(one for one in plain if one not in known)
            )
        return kind(**found)

    return _Form(partial(_write_object, written), read)


def _write_object(columns: Iterable[tuple[str, str, _Writer | None, Any]], value: Any) -> dict[str, Any]:
    """Write a value by name, without the fields that are equal to their defaults."""
    found = {}
    for field, name, writer, default in columns:
        one = getattr(value, field)
        if one != default:
            found[name] = one if writer is None else writer(one)
    return found


def _read_none(plain: Any) -> None:
    if plain is not None:
        raise ValueRefusedError("must be null")


def _read_text(plain: Any) -> str:
    if not isinstance(plain, str):
        raise ValueRefusedError("must be a text")
    return plain


def _read_bool(plain: Any) -> bool:
    if not isinstance(plain, bool):
        raise ValueRefusedError("must be true or false")
    return plain


def _read_int(plain: Any) -> int:
    if type(plain) is not int:
        raise ValueRefusedError("must be a whole number")
    return plain


def _read_float(plain: Any) -> float:
    if type(plain) is float:
        return plain
    if type(plain) is not int:
        raise ValueRefusedError("must be a number")
    try:
        return float(plain)
    except OverflowError:
        raise ValueRefusedError("must be a number of binary64") from None


def _write_bytes(value: bytes) -> Any:
    """Write bytes as a text where they are UTF-8, else as an object with base64."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {_BASE64: b64encode(value).decode("ascii")}


def _read_bytes(plain: Any) -> bytes:
    try:
        if isinstance(plain, str):
            return plain.encode()
        if isinstance(plain, dict) and plain.keys() == {_BASE64}:
            return b64decode(plain[_BASE64], validate=True)
    except (ValueError, TypeError):
        pass
    raise ValueRefusedError(f"must be a text, or an object with {_BASE64}")


def _read_one_of(options: tuple[Any, ...]) -> _Reader:
    def read(plain: Any) -> Any:
        if not any(type(plain) is type(one) and plain == one for one in options):
            raise ValueRefusedError(f"must be one of {', '.join(map(repr, options))}")
        return plain

    return read


def _read_enum(kind: type[Enum]) -> _Reader:
    members = {str(one.value): one for one in kind}

    def read(plain: Any) -> Any:
        member = members.get(plain) if isinstance(plain, str) else None
        if member is None:
            raise ValueRefusedError(f"must be one of {', '.join(members)}")
        return member

    return read


_SCALARS: Final[Mapping[type, _Form]] = MappingProxyType(
    {
        NoneType: _Form(None, _read_none),
        str: _Form(None, _read_text),
        bool: _Form(None, _read_bool),
        int: _Form(None, _read_int),
        float: _Form(None, _read_float),
        bytes: _Form(_write_bytes, _read_bytes),
    }
)

_PLAIN: Final[Mapping[type, str]] = MappingProxyType(
    {
        NoneType: "null",
        str: "a text",
        bool: "true or false",
        int: "a whole number",
        float: "a number",
        list: "a list",
        dict: "an object",
    }
)
