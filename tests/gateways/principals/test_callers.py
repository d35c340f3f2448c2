import pytest

from agentserver.gateways.principals import Rate, Role
from tests.gateways.principals.people import caller

SEES = {
    Role.USER: ("ada", False, True, False),
    Role.OPERATOR: (None, False, True, True),
    Role.VIEWER: (None, True, False, False),
    Role.WORKER: ("ada", False, False, False),
}


@pytest.mark.parametrize("role", Role)
def test_a_role_determines_views_and_actions(role):
    one = caller(role=role)
    assert (one.sees, one.redacted, one.acts, one.decides) == SEES[role]


@pytest.mark.parametrize("text", ["1/s", "100/m", "999999/h"])
def test_a_rate_is_written_as_it_is_read(text):
    assert str(Rate.parse(text)) == text


@pytest.mark.parametrize(
    "text", ["", "10", "0/s", "01/s", "-1/s", "10/d", "1.5/s", "10 /s", "٣/s", "10/s\n", "1" * 7 + "/s"]
)
def test_whatever_else_is_no_rate(text):
    with pytest.raises(ValueError, match="is no rate"):
        Rate.parse(text)


def test_a_rate_says_when_one_more_may_come():
    assert (Rate.parse("10/s").each, Rate.parse("30/m").each, Rate.parse("1/h").each) == (0.1, 2.0, 3600.0)
