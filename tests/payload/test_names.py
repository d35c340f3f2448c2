"""Names of elements taken apart."""

from __future__ import annotations

import pytest

from agentserver.payload.names import local, namespace


@pytest.mark.parametrize(
    ("name", "expected"),
    [("{urn:a}b", ("urn:a", "b")), ("b", ("", "b")), ("{}b", ("", "b")), ("", ("", ""))],
)
def test_a_name_has_a_namespace_and_a_local_part(name, expected):
    assert (namespace(name), local(name)) == expected
