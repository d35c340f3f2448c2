"""Each attack in ``attack_*.py`` against a server of its own: the server holds."""

from __future__ import annotations

import pytest

from tests.hostile.harness import attacks, measure


@pytest.mark.parametrize("attack", list(attacks()), ids=lambda attack: attack.name)
def test_the_server_holds(attack, tmp_path, capsys):
    row = measure(attack, tmp_path)
    with capsys.disabled():
        print(f"\n{row}")  # noqa: T201 - the figures are what a reader wants
    assert row.held, row.met
