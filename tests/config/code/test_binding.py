import pytest

from tests.config.code.test_signature import line_of
from tests.config.conftest import ONE


def test_the_annotation_alone_names_the_classes(project):
    code = "from agentserver.contract import SystemError\nasync def it(payload: Reply | Greeting | SystemError, metadata): ..."
    assert project.handler(code, "") == []
    (bound,) = project.load((project.root / "organism.yaml").read_text()).listeners
    assert [kind.__name__ for kind in bound.listener.payloads] == ["Reply", "Greeting"]


def test_one_of_them_must_name_a_class(project):
    expected = [
        (
            "organism.yaml:4: listeners[0].payload_class: is missing, and the handler's annotation names no class "
            "(name the class here, or annotate the handler's first parameter with it)"
        )
    ]
    assert project.handler("async def it(payload, metadata): ...", "") == expected
    code = "from agentserver.contract import SystemError\nasync def it(payload: SystemError, metadata): ..."
    assert project.handler(code, "") == expected


def test_annotation_and_declaration_agree(project):
    code = "async def it(payload: Reply, metadata): ..."
    (finding,) = project.handler(code)
    assert finding == (
        f"organism.yaml:5: listeners[0].handler: listeners/greet.py:{line_of(project, 'async def it')}: the handler's "
        "annotation names Reply, which payload_class does not (make them agree)"
    )


def test_an_annotation_may_also_name_the_answers_that_the_handler_gets(project):
    assert project.handler("async def it(payload: Greeting | Reply, metadata): ...") == []
    (bound,) = project.load((project.root / "organism.yaml").read_text()).listeners
    assert [kind.__name__ for kind in bound.listener.payloads] == ["Greeting"]


def test_a_declared_class_that_the_annotation_leaves_out_is_a_warning(project):
    (finding,) = project.listener("payload_class: [listeners.greet.Greeting, listeners.greet.Reply]")
    assert finding.startswith("organism.yaml:5: warning: listeners[0].handler: listeners/greet.py:")
    assert finding.endswith("the handler's annotation leaves out Reply (payload_class accepts it)")


def test_a_class_named_twice_counts_once(project):
    assert project.listener("payload_class: [listeners.greet.Greeting, listeners.greet.Greeting]") == []
    (bound,) = project.load((project.root / "organism.yaml").read_text()).listeners
    assert len(bound.listener.payloads) == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("greet", '"listeners.greet.greet" is not a class'),
        ("dataclass", '"listeners.greet.dataclass" is not a class'),
        ("HandlerMetadata", "the class HandlerMetadata ("),
        ("SystemError", "SystemError belongs to the system (leave it out)"),
        (
            "Gretting",
            'there is no name "Gretting" in "listeners.greet" (listeners/greet.py) (did you mean "Greeting"?)',
        ),
    ],
)
def test_payload_classes_that_are_refused(project, name, message):
    (finding,) = project.listener(
        f"payload_class: listeners.greet.{name}", "from agentserver.contract import SystemError\n"
    )
    assert finding.startswith(f"organism.yaml:7: listeners[0].payload_class: {message}")
    (finding,) = project.listener(
        f"payload_class:\n  - listeners.greet.Greeting\n  - listeners.greet.{name}",
        "from agentserver.contract import SystemError\n",
    )
    assert finding.startswith(f"organism.yaml:9: listeners[0].payload_class[1]: {message}")


def test_a_class_that_is_not_xmlify_is_named_with_its_file(project):
    (finding,) = project.listener("payload_class: listeners.greet.Raw", "class Raw: ...\n")
    assert (
        f"the class Raw (listeners/greet.py:{line_of(project, 'class Raw')}) is not @xmlify (decorate it)"
        in finding
    )


@pytest.mark.parametrize("name", ["schemas/a.xsd", "./schemas/../schemas/a.xsd"])
def test_a_schema_inside_the_project(project, name):
    project.write("schemas/a.xsd", "<x/>")
    assert project.load(ONE + f"    schema: {name}\n").listeners[0].schema == project.root / "schemas/a.xsd"


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("schemas/b.xsd", ' (did you mean "a.xsd"?)'),
        ("../out.xsd", ""),
        ("/etc/passwd", ""),
        ("link.xsd", ""),
        ("schemas", ""),
        ("no/a.xsd", ""),
    ],
)
def test_a_schema_that_is_refused(project, name, suggestion):
    project.write("schemas/a.xsd", "<x/>")
    (project.root.parent / "out.xsd").write_text("<x/>")
    (project.root / "link.xsd").symlink_to(project.root.parent / "out.xsd")
    (finding,) = project.errors(ONE + f"    schema: {name}\n")
    assert finding.startswith(
        f'organism.yaml:7: listeners[0].schema: "{name}" is no file inside the project directory'
    )
    assert finding.endswith(suggestion or str(project.root))


LIFESPANS = """
from contextlib import asynccontextmanager
@asynccontextmanager
async def good():
    yield
@asynccontextmanager
async def needy(x):
    yield
async def raw():
    yield
async def plain_async():
    pass
class Box:
    async def __aenter__(self): ...
    async def __aexit__(self, *args): ...
value = 5
"""


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("good", None),
        ("Box", None),
        ("needy", '"listeners.life.needy" must be callable without arguments'),
        (
            "raw",
            '"listeners.life.raw" must return an async context manager when it is called (decorate it with contextlib.asynccontextmanager)',
        ),
        (
            "plain_async",
            (
                '"listeners.life.plain_async" must return an async context manager when it is called (decorate it '
                "with contextlib.asynccontextmanager)"
            ),
        ),
        (
            "value",
            '"listeners.life.value" must return an async context manager when it is called (decorate it with contextlib.asynccontextmanager)',
        ),
        ("goo", 'there is no name "goo" in "listeners.life" (listeners/life.py) (did you mean "good"?)'),
    ],
)
def test_lifespans(project, name, message):
    project.write("listeners/life.py", LIFESPANS)
    expected = [] if message is None else [f"organism.yaml:7: lifespan: {message}"]
    assert project.errors(ONE + f"lifespan: listeners.life.{name}\n") == expected


def test_a_secret_in_a_description_is_pointed_at(project):
    project.environ["KEY"] = "hunter22"
    (finding,) = project.findings(ONE.replace("Greets.", "Greets ${KEY}."))
    assert finding == (
        "organism.yaml:6: warning: listeners[0].description: shows a value from ${...} to peers and models, and log "
        "output hides it"
    )


@pytest.mark.parametrize(("said", "found"), [("exclusive", (1, True)), ("1", (1, False)), ("3", (3, False))])
def test_a_listener_runs_so_often_in_a_process_or_alone_in_all(project, said, found):
    (bound,) = project.load(ONE.rstrip("\n") + f"\n    concurrency: {said}\n").listeners
    assert (bound.listener.concurrency, bound.listener.exclusive) == found
