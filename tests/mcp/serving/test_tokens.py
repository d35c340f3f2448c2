from __future__ import annotations

import pytest

from agentserver import bearer
from agentserver.mcp.serving import tokens


def test_a_token_is_its_principals_and_the_file_does_not_hold_it():
    ada, bob = bearer.fresh(), bearer.fresh()
    text = f"\n# hosts\n{tokens.line('Ada Lovelace', ada)}\n  {tokens.line('bob', bob)}  \n"
    known = tokens.read(text)
    assert ada not in text
    assert len(ada) == 43
    assert (bearer.holder(ada, known), bearer.holder(bob, known)) == ("Ada Lovelace", "bob")
    assert bearer.holder(ada.swapcase(), known) is None
    assert bearer.holder("", known) is None
    assert bearer.holder("\udc80", known) is None


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("ada", "1: a name and the SHA-256"),
        ("\nada " + "0" * 63, "2: a name and the SHA-256"),
        ("ada " + "F" * 64, "1: a name and the SHA-256"),
        ("0" * 64, "1: a name and the SHA-256"),
        (f"ada {'0' * 64}\nbob {'0' * 64}", "2: the same token is there already, for ada"),
    ],
)
def test_a_line_that_is_neither_is_told(text, fault):
    with pytest.raises(ValueError, match=fault):
        tokens.read(text)
