import sys
from dataclasses import dataclass

import pytest

from agentserver import xmlify
from agentserver.config import forget
from agentserver.config.code.signature import Discovery
from tests.config.conftest import CODE

PLACE = "organism.yaml:5: listeners[0].handler: listeners/greet.py:"


def line_of(project, text):
    lines = (project.root / "listeners/greet.py").read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if text in line)


SOUND = {
    "annotated": "async def it(payload: Greeting, metadata: HandlerMetadata) -> HandlerResponse | None: ...",
    "bare": "async def it(payload, metadata): ...",
    "anything": "from typing import Any\nasync def it(payload: Any, metadata: object) -> Any: ...",
    "none": "async def it(payload: Greeting, metadata) -> None: ...",
    "sequence": "from collections.abc import Sequence\nasync def it(payload, metadata) -> Sequence[HandlerResponse]: ...",
    "list": "async def it(payload, metadata) -> list[HandlerResponse] | None: ...",
    "tuple": "async def it(payload, metadata) -> tuple[HandlerResponse, ...]: ...",
    "bare list": "async def it(payload, metadata) -> list: ...",
    "result": "from agentserver.contract import HandlerResult\nasync def it(payload, metadata) -> HandlerResult: ...",
    "never": "from typing import NoReturn\nasync def it(payload, metadata) -> NoReturn: ...",
    "positional only": "async def it(payload, metadata, /): ...",
    "optional keyword": "async def it(payload, metadata, *, extra=None): ...",
    "and more": "async def it(payload, metadata, *rest, **more): ...",
    "with the system's": "from agentserver.contract import SystemError\n"
    "async def it(payload: Greeting | SystemError, metadata): ...",
    "for type checkers": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from agentserver.contract import HandlerResult\n"
    "async def it(payload: Greeting, metadata: HandlerMetadata) -> HandlerResult: ...",
    "partial": "import functools\nasync def of(db, payload: Greeting, metadata): ...\nit = functools.partial(of, 5)",
    "keyword partial": "import functools\nasync def of(payload: Greeting, metadata, db): ...\nit = functools.partial(of, db=5)",
    "method": "class Desk:\n    async def ask(self, payload: Greeting, metadata): ...\nit = Desk().ask",
    "instance": "class Desk:\n    async def __call__(self, payload: Greeting, metadata): ...\nit = Desk()",
    "wrapped": "import functools\ndef logged(f):\n    @functools.wraps(f)\n    async def w(*args, **kw):\n        return await f(*args, **kw)\n"
    "    return w\n@logged\nasync def it(payload: Greeting, metadata: HandlerMetadata) -> None: ...",
    "wrapped, two": "import functools\ndef logged(f):\n    @functools.wraps(f)\n    async def w(payload, metadata):\n"
    "        return await f(payload, metadata, 5)\n    return w\n@logged\nasync def it(payload: Greeting, metadata, db): ...",
    "enclosed": "def make():\n    @xmlify\n    @dataclass\n    class Inner:\n        a: int\n"
    "    async def run(payload: Greeting, metadata):\n        return Inner(1)\n    return run\nit = make()",
}


@pytest.mark.parametrize("code", SOUND.values(), ids=SOUND)
def test_accepted_signatures(project, code):
    assert project.handler(code) == []


REFUSED = {
    "sync": (
        "def it(payload, metadata): ...",
        "def it",
        '"it" must be declared with async def: a synchronous handler would stop',
    ),
    "lambda": ("it = lambda payload, metadata: None", "it = ", '"<lambda>" must be declared with async def'),
    "generator": (
        "async def it(payload, metadata):\n    yield",
        "async def it",
        '"it" must return its responses, not yield them',
    ),
    "one": ("async def it(payload): ...", "async def it", '"it" must take exactly two positional parameters'),
    "three": (
        "async def it(payload, metadata, more=None): ...",
        "async def it",
        '"it" must take exactly two',
    ),
    "keyword": (
        "async def it(payload, metadata, *, more): ...",
        "async def it",
        '"it" must take exactly two',
    ),
    "any number": ("async def it(*args): ...", "async def it", '"it" must take exactly two'),
    "no self": (
        "class D:\n    async def ask(): ...\nit = D().ask",
        "async def ask",
        '"D.ask" must take exactly two',
    ),
    "payload": (
        "async def it(payload: int, metadata): ...",
        "async def it",
        '"it" annotates its payload with int (builtins), which is not @xmlify',
    ),
    "swapped": (
        "from agentserver import HandlerMetadata\nasync def it(metadata: HandlerMetadata, payload): ...",
        "async def it",
        '"it" annotates its payload with HandlerMetadata; the payload comes first, then the metadata',
    ),
    "not xmlify": (
        "class Raw: ...\nasync def it(payload: Raw, metadata): ...",
        "async def it",
        '"it" annotates its payload with Raw (listeners/greet.py:{Raw}), which is not @xmlify',
    ),
    "inherited": (
        "class Sub(Greeting): ...\nasync def it(payload: Sub, metadata): ...",
        "async def it",
        '"it" annotates its payload with Sub',
    ),
    "optional": (
        "async def it(payload: Greeting | None, metadata): ...",
        "async def it",
        '"it" annotates its payload with NoneType',
    ),
    "generic": (
        "async def it(payload: list[Greeting], metadata): ...",
        "async def it",
        '"it" annotates its payload with list[listeners.greet.Greeting], which is no class',
    ),
    "unknown": (
        "async def it(payload: Greting, metadata): ...",
        "async def it",
        "\"it\" has an annotation of its payload that means nothing: name 'Greting' is not defined",
    ),
    "metadata": (
        "async def it(payload, metadata: dict): ...",
        "async def it",
        '"it" annotates its metadata with dict, not HandlerMetadata',
    ),
    "result": (
        "async def it(payload, metadata) -> str | None: ...",
        "async def it",
        '"it" says that it returns str; allowed: HandlerResponse, a sequence',
    ),
    "results": (
        "async def it(payload, metadata) -> list[str]: ...",
        "async def it",
        '"it" says that it returns list[str]',
    ),
    "sync wrapper": (
        "import functools\ndef w(f):\n    @functools.wraps(f)\n    def run(*args):\n        return f(*args)\n    return run\n@w\nasync def it(payload, metadata): ...",
        "    def run",
        '"it" must be declared with async def',
    ),
    "sync call": (
        "class D:\n    def __call__(self, payload, metadata): ...\nit = D()",
        "    def __call__",
        '"D" must be declared with async def',
    ),
    "partial": (
        "import functools\nit = functools.partial(greet, 1, 2, 3)",
        "async def greet",
        '"greet" must take exactly two positional parameters: payload and metadata; typed parameters of its own need',
    ),
    "typed instance": (
        "class D:\n    async def __call__(self, text: str) -> str: ...\nit = D()",
        "async def __call__",
        '"D" must take exactly two positional parameters: payload and metadata; typed parameters of its own need',
    ),
}


@pytest.mark.parametrize(("code", "where", "message"), REFUSED.values(), ids=REFUSED)
def test_invalid_signatures_are_refused_at_the_handlers_own_line(project, code, where, message):
    findings = project.handler(code)
    assert len(findings) == 1
    if "{Raw}" in message:
        message = message.replace("{Raw}", str(line_of(project, "class Raw")))
    assert findings[0].startswith(f"{PLACE}{line_of(project, where)}: {message}")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("it = 5", "an object of int"),
        ("it = Greeting", "a class"),
        ("it = len", "an object of builtin_function_or_method"),
    ],
)
def test_objects_that_are_not_functions(project, code, kind):
    (finding,) = project.handler(code)
    assert finding.startswith('organism.yaml:5: listeners[0].handler: "')
    assert finding.endswith(f"is no handler: an async function is needed, found {kind}")


def test_an_invalid_name(project):
    assert project.handler("it = None") == [
        'organism.yaml:5: listeners[0].handler: "listeners.greet.it" is None'
    ]


def test_bytes_are_deprecated_and_flagged(project):
    (finding,) = project.handler("async def it(payload, metadata) -> bytes | None: ...")
    assert finding == (
        f"organism.yaml:5: warning: listeners[0].handler: listeners/greet.py:{line_of(project, 'async def it')}: "
        "the handler returns bytes, which is deprecated (return HandlerResponse)"
    )
    assert project.load((project.root / "organism.yaml").read_text()).listeners[0].returns_bytes


@pytest.mark.parametrize("code", [SOUND["result"], SOUND["bare"], SOUND["anything"]])
def test_bytes_are_flagged_when_annotated_only(project, code):
    project.handler(code)
    assert not project.load((project.root / "organism.yaml").read_text()).listeners[0].returns_bytes


def discovered(project, code):
    assert project.handler(code) == []
    organism = project.load((project.root / "organism.yaml").read_text())
    forget(organism)
    return [kind.__name__ for kind in organism.listeners[0].discovered]


def test_a_modules_objects_are_not_asked_for_their_class(project):
    proxy = """
class Proxy:
    def __getattribute__(self, name):
        raise RuntimeError("outside of a request")

current = Proxy()
async def it(payload: Greeting, metadata): ...
"""
    assert discovered(project, proxy) == ["Greeting", "Reply"]


def test_classes_that_a_handler_can_name(project):
    project.write("listeners/payloads.py", CODE.replace("Greeting", "Far").replace("Reply", "Farther"))
    code = "from listeners import payloads\nasync def it(payload, metadata):\n    return payloads.Far('x')\n"
    assert discovered(project, code) == ["Greeting", "Reply", "Far"]


def test_classes_of_enclosing_variables_and_of_wrapped_functions(project):
    assert discovered(project, SOUND["enclosed"]) == ["Greeting", "Reply", "Inner"]
    project.write(
        "listeners/wrap.py",
        "import functools\ndef logged(f):\n    @functools.wraps(f)\n    async def w(*args):\n        return await f(*args)\n    return w\n",
    )
    code = "from listeners.wrap import logged\n@logged\nasync def it(payload: Greeting, metadata): ...\n"
    assert discovered(project, code) == ["Greeting", "Reply"]


def test_the_classes_of_many_handlers_in_one_module_are_found_in_linear_time():
    def calls(size):
        namespace = {"__name__": "many", "xmlify": xmlify, "dataclass": dataclass}
        rows = "".join(
            f"@xmlify\n@dataclass\nclass P{i}: pass\nasync def h{i}(p, m): P{i}\n" for i in range(size)
        )
        exec(compile(rows, "many", "exec"), namespace)
        discovery, counted = Discovery(), 0

        def count(frame, event, arg):
            nonlocal counted
            counted += event == "call"

        sys.setprofile(count)
        try:
            found = [discovery.list_classes(namespace[f"h{i}"]) for i in range(size)]
        finally:
            sys.setprofile(None)
        assert all(len(each) == size for each in found)
        return counted

    assert calls(80) <= 10 * calls(10)
