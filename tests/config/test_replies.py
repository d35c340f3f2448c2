"""What a listener answers with is known at load: what a restart could not read is refused when it is returned."""

from __future__ import annotations

import asyncio
import importlib
import sys

import anyio
import pytest

from agentserver.assembly import build, build_rules
from agentserver.config import forget
from agentserver.contract import Code
from agentserver.core.drafts.replies import normalise
from agentserver.core.messages import Drafts
from agentserver.core.refusals import Refusal
from agentserver.core.state.effects import ThreadStorage
from agentserver.core.state.requests import ResultLimits
from agentserver.payload.codec import UndeclaredPayload
from tests.config.conftest import CODE, ONE

LATE = CODE.replace("class Reply", "class Late").replace("class Greeting", "class Kept")
INSIDE = """
    async def it(payload: Greeting, metadata):
        import listeners.late
        return HandlerResponse.respond(listeners.late.Late(payload.name))
"""


def organism(project, more=""):
    """An organism whose handler imports the class of its reply when it is called."""
    project.write("listeners/late.py", LATE)
    project.write("listeners/greet.py", CODE + INSIDE.replace("\n    ", "\n"))
    return project.load(ONE.replace("greet.greet", "greet.it").rstrip() + f"{more}\n")


def answer_outcome(loaded):
    """Return the outcome of the handler's answer."""
    by, (bound,) = build_rules(loaded), loaded.listeners
    (payload,) = bound.listener.payloads
    result = asyncio.run(bound.handler(payload("Ada"), None))
    return by, normalise(result, by.codecs, by.bounds, ResultLimits(10, 1 << 20))


@pytest.fixture
def late(project, monkeypatch):
    """The project's folder is on the path while a handler runs, so that it can import at all."""
    monkeypatch.syspath_prepend(project.root)
    return project


def test_a_class_imported_inside_a_handler_is_refused_with_advice(late):
    _, said = answer_outcome(organism(late))
    assert isinstance(said, Refusal)
    assert (said.code, said.corrections) == (Code.VALIDATION, ())
    (fault,) = said.detail.faults
    for advice in ("Late", "import it at the top", "list it under replies:"):
        assert advice in fault


@pytest.mark.parametrize("listed", ["listeners.late.Late", "[listeners.late.Kept, listeners.late.Late]"])
def test_a_class_that_is_listed_is_sent(late, listed):
    by, said = answer_outcome(organism(late, f"\n    replies: {listed}"))
    assert isinstance(said, Drafts)
    assert by.codecs.for_root(said.drafts[0].root) is not None


def test_a_sent_payload_has_the_class_of_another_load(late):
    for more in ("", "\n    replies: listeners.late.Late"):
        loaded = organism(late, more)
        _, said = answer_outcome(loaded)
        forget(loaded)
        sys.modules.pop("listeners.late", None)
        again = build_rules(organism(late, more))
        known = isinstance(said, Drafts) and again.codecs.for_root(said.drafts[0].root) is not None
        assert known == isinstance(said, Drafts)
        assert known == bool(more)
        forget(loaded)
        sys.modules.pop("listeners.late", None)


def test_a_stored_payload_is_known_as_well(late):
    from_load = build_rules(organism(late, "\n    replies: listeners.late.Kept"))
    import listeners.late

    storage = ThreadStorage({}, from_load.codecs, from_load.bounds, 1000)
    storage.set(listeners.late.Kept("a"))
    with pytest.raises(UndeclaredPayload, match="Late: could not be read after a restart"):
        storage.set(listeners.late.Late("a"))
    with pytest.raises(UndeclaredPayload):
        storage.get(listeners.late.Late)
    with pytest.raises(UndeclaredPayload):
        storage.delete(listeners.late.Late)
    assert len(storage.changes) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("replies: listeners.greet.Reqly", '7: listeners[0].replies: there is no name "Reqly" in'),
        ("replies: [listeners.greet.Reply, listeners.greet.greet]", '7: listeners[0].replies[1]: "listeners.greet.greet"'),
        ("replies: listeners.greet.SystemError", "7: listeners[0].replies: SystemError belongs to the system"),
        ("replies: listeners.greet.TodoClosed", "7: listeners[0].replies: TodoClosed belongs to the system"),
        ("replies: listeners.greet.Raw", "7: listeners[0].replies: the class Raw ("),
        ("replies: 3", "7: listeners[0].replies: "),
        ("reply: listeners.greet.Reply", "7: listeners[0].reply: unknown key"),
    ],
)  # fmt: skip
def test_replies_that_are_refused(project, text, message):
    code = "from agentserver.contract import SystemError, TodoClosed\nclass Raw: ...\n"
    (finding,) = project.listener(text, code)
    assert finding.startswith(f"organism.yaml:{message}")


def test_a_misspelt_name_gets_a_suggestion(project):
    (finding,) = project.listener("replies: listeners.greet.Reqly")
    assert 'did you mean "Reply"?' in finding


def discovered_names(project, code):
    assert project.handler(code) == []
    loaded = project.load((project.root / "organism.yaml").read_text())
    forget(loaded)
    return {kind.__name__ for kind in loaded.listeners[0].discovered}


@pytest.mark.parametrize(
    "code",
    [
        "from listeners import late\ndef made(x):\n    return late.Late(x)\nasync def it(payload, metadata): ...\n",
        "import listeners.late\ndef made(x):\n    return listeners.late.Late(x)\nasync def it(payload, metadata): ...\n",
        "from listeners import late\nclass Maker:\n    def made(self, x):\n        return late.Late(x)\nasync def it(payload, metadata): ...\n",
        "from listeners import late\nasync def it(payload, metadata):\n    return [late.Late(x) for x in (lambda: 'a')()]\n",
        "from listeners import late\nasync def it(payload, metadata):\n    def inner():\n        return late.Late('a')\n    return inner()\n",
    ],
)
def test_classes_named_in_the_handlers_module_are_found(project, code):
    project.write("listeners/late.py", LATE)
    assert discovered_names(project, code) == {"Greeting", "Reply", "Late"}


def test_the_log_suggests_a_fix_and_the_caller_learns_nothing(late, caplog):
    loaded = organism(late)
    importlib.import_module("listeners.late")  # finding it would block the loop

    async def scenario():
        async with build(loaded) as server:
            handle = await server.open("console")
            data = '<Greeting xmlns="urn:agentserver:payload:Greeting:v1"><name>Ada</name></Greeting>'
            return await handle.ask(data.encode(), "greeter")

    reply = anyio.run(scenario)
    assert reply.error
    assert b"replies:" not in reply.message
    told = [
        record.getMessage() for record in caplog.records if "list it under replies:" in record.getMessage()
    ]
    assert told
    assert "Late: could not be read after a restart" in told[0]
