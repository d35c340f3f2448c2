"""Every kind of value that is kept comes back equal, with examples that are derived from its annotations."""

from __future__ import annotations

import types
from collections.abc import Mapping
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentserver.codec import ValueRefusedError, list_fields
from agentserver.core.encoding import changes, codecs, decision_codec, parts
from agentserver.core.encoding.codecs import DETAILS
from agentserver.core.records.details import Charge, FreeText, RepairNote
from agentserver.engines.postgres import hints
from agentserver.worker import frames
from tests.fuzzing import examples

CODECS = {
    "state": parts.STATE,
    "rights": parts.RIGHTS,
    "amount": parts._AMOUNT,
    "reservation": parts._RESERVATION,
    "change": changes.CHANGE,
    "records": codecs.RECORDS,
    "causes": decision_codec._CAUSES,
    "arrivals": hints._ARRIVALS,
    "fates": hints._FATES,
    "frames": frames._FRAMES,
    "spoken": frames._SPOKEN,
    "answers": frames._ANSWER,
}
DETAIL = st.sampled_from([FreeText("a\nb"), RepairNote("closed"), Charge("", 1, 2)])
"""Details have checks of their own; tests/core/records/test_details.py keeps one of each kind."""

SCALARS = {
    str: st.text(max_size=5),
    bool: st.booleans(),
    int: st.integers(0, 99),
    float: st.floats(allow_nan=False, allow_infinity=False),
    types.NoneType: st.none(),
}


def values_of(codec, hint):  # noqa: C901 - one for each kind of type
    """Values of a type, as its annotations say."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint == DETAILS.kind or hint == codec.scope["Detail"]:
        return DETAIL
    if hint is Any:
        return st.none() | st.integers() | st.text(max_size=5)
    if hint is bytes:
        # The payloads of a frame are texts.
        return st.text(max_size=5).map(str.encode) if codec.style.by_name else st.binary(max_size=5)
    if hint in SCALARS:
        return SCALARS[hint]
    if origin in (Union, types.UnionType):
        return st.one_of([values_of(codec, one) for one in arguments])
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin is tuple and arguments[-1] is not Ellipsis:
        return st.tuples(*(values_of(codec, one) for one in arguments))
    if origin in (tuple, list, frozenset):
        return st.lists(values_of(codec, arguments[0]), max_size=2).map(origin)
    if origin in (dict, Mapping):
        return st.dictionaries(st.text(max_size=5), values_of(codec, arguments[1]), max_size=2)
    if issubclass(hint, Enum):
        return st.sampled_from(hint)
    return st.builds(hint, *(values_of(codec, field.hint) for field in list_fields(hint, codec.scope)))


def plain_values(plain, way=()):
    """Every place in a plain value."""
    yield way
    steps = (
        plain.items()
        if isinstance(plain, dict)
        else enumerate(plain)
        if isinstance(plain, list | tuple)
        else ()
    )
    for step, one in steps:
        yield from plain_values(one, (*way, step))


def replace_value(plain, way, lie):
    if not way:
        return lie
    copy = dict(plain) if isinstance(plain, dict) else list(plain)
    copy[way[0]] = replace_value(plain[way[0]], way[1:], lie)
    return copy


@pytest.mark.parametrize("name", CODECS)
@settings(max_examples=examples(30))
@given(st.data())
def test_a_value_comes_back_equal(name, data):
    codec = CODECS[name]
    value = data.draw(values_of(codec, codec.kind))
    try:
        again = codec.value(codec.plain(value))
    except ValueRefusedError as error:
        assert "belong together" in str(error)  # noqa: PT017 - a check of its own, which no annotation says
        return
    assert again == value
    assert codec.load(codec.dump(value)) == value


@pytest.mark.parametrize("name", CODECS)
@settings(max_examples=examples(30))
@given(st.data())
def test_whatever_is_put_in_its_place_is_a_value_or_refused(name, data):
    codec = CODECS[name]
    plain = codec.plain(data.draw(values_of(codec, codec.kind)))
    way = data.draw(st.sampled_from(list(plain_values(plain))))
    lie = data.draw(st.sampled_from([None, True, 7, 1.5, "odd", [], ["odd"], {}, {"odd": 1}]))
    try:
        value = codec.value(replace_value(plain, way, lie))
    except ValueRefusedError as error:
        assert "odd" not in error.rule  # noqa: PT017 - what was sent is not quoted
        return
    assert codec.load(codec.dump(value)) == value


@pytest.mark.parametrize("name", [name for name, codec in CODECS.items() if codec.version is not None])
def test_another_version_is_refused(name):
    with pytest.raises(ValueRefusedError, match="has format 2, and only format 1 is read here"):
        CODECS[name].load(b"[2,[]]")
