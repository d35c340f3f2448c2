import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from agentserver import SystemError
from agentserver.contract import Code
from agentserver.payload.functions import payload_of
from agentserver.testing import listener, organism, organism_of
from tests.config.code.test_signature import PLACE, line_of


@dataclass(frozen=True)
class Sum:
    value: int


async def add(a: int, b: int = 1) -> Sum | None:
    return None if a == 0 else Sum(a + b)


async def halve(a: int) -> float:
    if a == 1:
        return "half"
    return a / 2


async def count(to: int) -> AsyncIterator[str | Sum]:
    for number in range(to):
        yield f"at {number}"
    yield Sum(to)
    if to == 3:
        yield Sum(to)


class Desk:
    async def sell(self, what: str) -> str:
        return f"sold {what}"


@pytest.mark.parametrize(
    ("function", "given", "answer"),
    [
        (add, {"a": 2, "b": 3}, Sum(5)),
        (add, {"a": 2}, Sum(3)),
        (add, {"a": 0}, payload_of(f"{__name__}.AddResult")()),
        (halve, {"a": 3}, 1.5),
        (halve, {"a": 1}, Code.VALIDATION),
        (count, {"to": 2}, Sum(2)),
        (count, {"to": 3}, Code.INTERNAL),
        (Desk().sell, {"what": "a"}, "sold a"),
    ],
)
def test_a_function_answers_its_caller(function, given, answer):
    desk = organism_of(listener("it", function))

    async def ask():
        async with organism(desk) as bed:
            return await bed.ask(payload_of(function)(**given), to="it")

    found = asyncio.run(ask())
    if isinstance(found, SystemError):
        found = found.code
    assert getattr(found, "value", found) == getattr(answer, "value", answer)


def test_yielded_values_are_progress():
    desk, made = organism_of(listener("it", count)), payload_of(count)(to=2)

    async def watch():
        async with organism(desk) as bed:
            handle = await bed.server.open("watcher")
            words = handle.progress()
            await handle.ask(made.__codec__.encode(made).encode(), "it")
            await handle.close()
            return [each.text async for each in words]

    assert asyncio.run(watch()) == ["at 0", "at 1"]


def test_a_function_declares_its_payload_and_its_answers(project):
    code = "async def it(name: str, times: int = 1) -> Reply:\n    return Reply(name * times)\n"
    assert project.handler(code, "") == []
    (bound,) = project.load((project.root / "organism.yaml").read_text()).listeners
    assert [kind.__name__ for kind in bound.listener.payloads] == ["It"]
    assert [kind.__name__ for kind in bound.listener.answers] == ["Reply"]
    assert {"It", "Reply"} <= {kind.__name__ for kind in bound.discovered}


def test_a_derived_class_may_be_named_in_the_yaml(project):
    code = "async def it(name: str) -> int:\n    return 1\n"
    assert project.handler(code, "It") == []
    (bound,) = project.load((project.root / "organism.yaml").read_text()).listeners
    assert bound.listener.payloads == (bound.listener.payloads[0],)
    assert bound.listener.payloads[0].__name__ == "It"
    (finding,) = project.handler(code, "Itt")
    assert 'there is no name "Itt"' in finding


@pytest.mark.parametrize(
    ("code", "where", "message"),
    [
        (
            "async def it(\n    name: str,\n    how: dict,\n) -> None: ...",
            "how: dict",
            "parameter how has a type",
        ),
        ("async def it(name: str, how: '1/0') -> None: ...", "async def it", "division by zero"),
        ("async def it(name: str, how, why: str) -> None: ...", "async def it", "parameter how has no type"),
        ("async def it(\n    name: str,\n) -> dict[str, str]: ...", ") -> dict", "its answer has a type"),
        ("async def it(name: str): ...", "async def it", "its answer has no type"),
        (
            "async def greeting(name: str) -> None: ...\nit = greeting",
            "async def greeting",
            "derives Greeting",
        ),
    ],
)
def test_a_signature_that_cannot_be_typed_is_reported_at_the_parameter(project, code, where, message):
    (finding,) = project.handler(code, "")
    name = "greeting" if "greeting" in code else "it"
    assert finding.startswith(f'{PLACE}{line_of(project, where)}: "{name}": {message}')


def test_a_decorated_function_declares_the_same_as_the_function(project):
    code = """
        import functools

        def logged(function):
            @functools.wraps(function)
            async def run(*args, **more):
                return await function(*args, **more)
            return run

        @logged
        async def it(name: str, times: int = 1) -> Reply:
            return Reply(name * times)
    """
    assert project.handler(code, "") == []
    desk = project.load((project.root / "organism.yaml").read_text())
    ((made,),) = [bound.listener.payloads for bound in desk.listeners]

    async def ask():
        async with organism(desk) as bed:
            return await bed.ask(made("a", 2))

    assert (made.__name__, asyncio.run(ask()).text) == ("It", "aa")
