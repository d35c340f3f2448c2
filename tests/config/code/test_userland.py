import sys

import pytest

from agentserver.config import forget
from agentserver.config.code.userland import (
    Importer,
    NoFile,
    Project,
    ResolveFailure,
    attempt,
    report_strangers,
)
from tests.config.conftest import CODE, ONE


def resolve(project, path):
    return Importer(Project(project.root, project.root)).resolve(path)


def test_a_path_resolves_to_its_object(project):
    project.write(
        "top.py", "class Box:\n    class Inner:\n        async def method(self): ...\nbox = Box()\n"
    )
    project.write("listeners/deep/inner.py", "value = 5\n")
    assert resolve(project, "top.Box").__name__ == "Box"
    assert resolve(project, "top.Box.Inner.method").__qualname__ == "Box.Inner.method"
    assert resolve(project, "listeners.deep.inner.value") == 5
    assert resolve(project, "json.JSONDecoder.decode").__name__ == "decode"


def test_a_submodule_wins_over_an_attribute_of_its_name(project):
    project.write("listeners/both.py", "both = 5\n")
    project.write("listeners/__init__.py", "from listeners.both import both\n")
    assert resolve(project, "listeners.both.both") == 5


def test_the_path_is_searched_during_the_import_only(project):
    project.write("listeners/quick.py", "import sys\nfirst = sys.path[0]\nsys.path.remove(first)\n")
    before = list(sys.path)
    assert resolve(project, "listeners.quick.first") == str(project.root)
    assert sys.path == before
    assert resolve(project, "listeners.greet.greet").__name__ == "greet"
    assert sys.path == before


@pytest.mark.parametrize(
    ("path", "message", "suggestion"),
    [
        ("listener.greet.greet", 'there is no module "listener" in /project', 'did you mean "listeners"?'),
        (
            "listeners.gret.greet",
            'there is no module "gret" in "listeners" (/project/listeners/__init__.py)',
            'did you mean "greet"?',
        ),
        (
            "listeners.greet.gret",
            'there is no name "gret" in "listeners.greet" (/project/listeners/greet.py)',
            'did you mean "greet"?',
        ),
        (
            "listeners.gret",
            'there is no name "gret" in "listeners" (/project/listeners/__init__.py)',
            'did you mean "greet"?',
        ),
        ("listeners.greet", '"listeners.greet" is a module; name something in it', ""),
        ("listeners.greet.Greeting.nam", 'there is no "nam" in Greeting', ""),
        ("listeners.greet.greet.x.y", 'there is no "x" in greet', ""),
        ("space.nothing.it", 'there is no module "nothing" in "space"', ""),
    ],
)
def test_a_dead_path_is_refused(project, path, message, suggestion):
    project.write("space/other.txt", "")
    found = resolve(project, path)
    assert isinstance(found, ResolveFailure)
    assert found.message.replace(str(project.root), "/project").startswith(message)
    assert found.suggestion == suggestion


def test_an_imported_module_is_still_a_module(project):
    resolve(project, "listeners.greet.greet")
    assert (
        resolve(project, "listeners.greet").message == '"listeners.greet" is a module; name something in it'
    )


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("x = 1\ny = 1 / 0\n", "listeners/bad.py:2: ZeroDivisionError: division by zero"),
        ("def f(:\n", "listeners/bad.py:1: SyntaxError: invalid syntax"),
        (
            "import nowhere_at_all\n",
            "listeners/bad.py:1: ModuleNotFoundError: No module named 'nowhere_at_all'",
        ),
        ("from listeners.greet import gone\n", "listeners/bad.py:1: ImportError: cannot import name 'gone'"),
        ("import json\njson.loads('{')\n", "listeners/bad.py:2: JSONDecodeError"),
        ("raise SystemExit(3)\n", "listeners/bad.py:1: SystemExit: 3"),
    ],
)
def test_a_module_that_fails_is_explained_at_its_own_line_and_once(project, code, reason):
    project.write("listeners/bad.py", code)
    findings = project.findings(
        ONE.replace("greet.greet", "bad.it") + "    payload_class: listeners.bad.It\n"
    )
    assert len(findings) == 1
    assert findings[0].startswith(
        f'organism.yaml:5: listeners[0].handler: importing "listeners.bad" failed: {reason}'
    )


def test_a_failure_outside_the_project_has_no_line(project):
    crash = attempt(lambda: 1 / 0)
    assert Project(project.root, project.root).explain(crash) == "ZeroDivisionError: division by zero"


def test_a_payload_that_is_refused_is_blamed_on_the_line_of_its_field(project):
    project.write("listeners/greet.py", CODE + "\n@xmlify\n@dataclass\nclass Odd:\n    a: complex\n")
    (finding,) = project.findings(ONE)
    line = len(CODE.splitlines()) + 5
    assert f"failed: listeners/greet.py:{line}: PayloadError: " in finding


def test_an_interrupt_is_not_the_projects(project):
    def interrupt():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        attempt(interrupt)


def test_a_second_organism_with_modules_of_the_same_names_is_refused(project):
    first = project.load(ONE)
    assert first.modules.names == ("listeners", "listeners.greet")
    other = project.beside("other")
    other.write("listeners/__init__.py", "")
    other.write("listeners/greet.py", CODE)
    findings = other.findings(ONE)
    assert len(findings) == 1
    assert findings[0].startswith(
        f'organism.yaml:5: listeners[0].handler: this process takes "listeners" from {project.root}/listeners/__init__.py, '
        "not from the project: rename one of them"
    )
    forget(first)
    second = other.load(ONE)
    assert second.listeners[0].handler is not first.listeners[0].handler


def test_a_load_that_fails_leaves_no_modules(project):
    before = set(sys.modules)
    assert project.errors(ONE + "    agent: 5\n")
    assert set(sys.modules) == before


def test_packages_without_init_are_distinguished_too(project):
    project.write("space/greet.py", CODE)
    other = project.beside("other")
    other.write("space/greet.py", CODE)
    text = ONE.replace("listeners.greet", "space.greet")
    first = project.load(text)
    assert first.modules.names == ("space", "space.greet")
    (finding,) = other.findings(text)
    assert f'takes "space.greet" from {project.root}/space/greet.py, not' in finding
    forget(first)
    other.load(text)


@pytest.mark.parametrize("statement", ["import shared", "from shared import value"])
def test_an_import_that_another_organism_answers_is_refused(project, statement):
    project.write("shared.py", "value = 1\n")
    project.write("listeners/greet.py", CODE + "\nimport shared\n")
    project.load(ONE)
    other = project.beside("other")
    other.write("shared.py", "value = 2\n")
    other.write("mine/__init__.py", "")
    other.write("mine/greet.py", CODE + f"\ndef late():\n    {statement}\n")
    findings = other.findings(ONE.replace("listeners.greet", "mine.greet"))
    assert len(findings) == 1
    line = len(CODE.splitlines()) + 3
    assert findings[0].startswith(
        f'organism.yaml:1: mine/greet.py:{line}: this process takes "shared" from {project.root}/shared.py'
    )


def test_a_project_of_its_own_has_no_strangers(project):
    project.write("shared.py", "value = 1\n")
    project.write(
        "listeners/greet.py", CODE + "\nimport shared\nfrom . import other\nfrom listeners import other\n"
    )
    project.write("listeners/other.py", "")
    project.load(ONE)
    assert list(report_strangers(Project(project.root, project.root))) == []


def test_an_installed_library_in_the_way_is_named(project):
    project.write("yaml.py", "async def load(payload, metadata): ...\n")
    (finding,) = project.findings(ONE.replace("listeners.greet.greet", "yaml.load"))
    assert 'this process takes "yaml" from ' in finding


def test_a_built_in_module_in_the_way_is_named(project):
    project.write("sys.py", "")
    assert 'this process takes "sys" from the interpreter' in resolve(project, "sys.exit").message


def test_a_loop_of_links_is_no_file(project):
    loop = project.root / "loop"
    loop.symlink_to("loop")
    home = Project(project.root, project.root)
    assert isinstance(home.resolve_file("loop"), NoFile)
    assert isinstance(home.resolve_file("loop/inside"), NoFile)
    (project.root / "greet.py").symlink_to("greet.py")
    assert 'there is no module "greet"' in resolve(project, "greet.greet").message


def test_a_folder_with_the_name_of_a_module_is_not_suggested_as_that_module(project):
    project.write("listeners/__init__.py", "")
    (project.root / "listeners" / "away.py").mkdir()
    found = resolve(project, "listeners.away.it")
    assert found.message.endswith(": away.py there is no file")
    assert found.suggestion == ""


def test_a_source_with_a_nul_is_not_blamed_on_a_file_of_the_interpreter(project):
    project.write("nul.py", "x = 1\0")
    told = resolve(project, "nul.x").message  # a SyntaxError or a ValueError, as the interpreter likes
    assert told.startswith('importing "nul" failed: ')
    assert "<frozen" not in told
