"""An organism that is loaded a second time: its old and its new modules exist side by side."""

import gc
import inspect
import os
import pickle
import sys
import traceback
import typing
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

from agentserver.config import ConfigError, forget, load
from agentserver.config.code.namespace import Namespace
from agentserver.config.code.userland import Importer, Project, ResolveFailure
from agentserver.contract import Code
from tests.config.conftest import CODE, ONE

LATER = CODE.replace("Reply(payload.name)", 'Reply(f"again {payload.name}")')

SHARED = """
from __future__ import annotations
from dataclasses import dataclass
from agentserver.payload.xmlify import xmlify

@dataclass
class Part:
    text: str

@xmlify
@dataclass
class Whole:
    part: Part
"""

USING = """
import listeners.shared
import listeners.shared as same
from listeners import shared
from listeners.shared import Whole
from . import shared as beside
from .shared import Part

async def use(payload: Whole, metadata):
    from listeners import late
    return late.word(payload)

async def dynamic(payload: Whole, metadata):
    import listeners.late as module
    return module
"""


def again(project):
    return load(project.root / "organism.yaml", environ={}, separate=True)


@pytest.fixture
def twice(project):
    """Loads a second time; the modules leave the process with the test."""
    before, finders = set(sys.modules), list(sys.meta_path)
    yield lambda: again(project)
    sys.meta_path[:] = finders
    for name in set(sys.modules) - before:
        if name.startswith("edition"):
            del sys.modules[name]


@pytest.fixture
def space(project):
    namespace = Namespace(project.root)
    yield namespace
    namespace.close()


def resolve(project, namespace, path):
    return Importer(Project(project.root, project.root), namespace).resolve(path)


def test_changed_code_is_loaded_next_to_the_old(project, twice):
    old = project.load(ONE)
    project.write("listeners/greet.py", LATER)
    new = twice()
    assert "again " in str(new.listeners[0].handler.__code__.co_consts)
    assert "again " not in str(old.listeners[0].handler.__code__.co_consts)
    assert (
        sys.modules["listeners.greet"].greet is old.listeners[0].handler
    )  # a test that imports it meets the first
    own = new.modules.namespace.name
    assert new.modules.names == (own, f"{own}.listeners", f"{own}.listeners.greet")
    third = twice()
    other = third.modules.namespace.name
    assert other != own
    forget(third)
    assert not any(name.partition(".")[0] == other for name in sys.modules)
    assert f"{own}.listeners.greet" in sys.modules


def test_every_way_of_importing_leads_into_the_namespace(project, space):
    project.write("listeners/shared.py", SHARED)
    project.write("listeners/using.py", USING)
    use = resolve(project, space, "listeners.using.use")
    module = sys.modules[use.__module__]
    shared = sys.modules[f"{space.name}.listeners.shared"]
    assert module.same is module.shared is module.beside is module.listeners.shared is shared
    assert module.Whole is shared.Whole
    assert module.Part is shared.Part
    assert "listeners" not in sys.modules


def test_a_handler_that_imports_long_after_meets_its_own_modules(project, space):
    project.write("listeners/shared.py", SHARED)
    project.write("listeners/using.py", USING)
    use = resolve(project, space, "listeners.using.use")
    dynamic = resolve(project, space, "listeners.using.dynamic")
    project.write("listeners/late.py", "def word(payload): return f'late {payload}'\n")
    with pytest.raises(StopIteration, match="late it"):
        use("it", None).send(None)
    with pytest.raises(StopIteration) as found:
        dynamic(None, None).send(None)
    assert found.value.value is sys.modules[f"{space.name}.listeners.late"]
    assert "listeners.late" not in sys.modules


def test_annotations_pickles_sources_and_tracebacks_are_pythons_own(project, space):
    project.write("listeners/shared.py", SHARED + "\ndef fail():\n    raise ValueError('here')\n")
    whole = resolve(project, space, "listeners.shared.Whole")
    part = resolve(project, space, "listeners.shared.Part")
    assert typing.get_type_hints(whole) == {"part": part}
    assert pickle.loads(pickle.dumps(whole(part("x")))) == whole(part("x"))
    assert inspect.getsource(part).startswith("@dataclass\nclass Part:")
    with pytest.raises(ValueError, match="here") as caught:
        resolve(project, space, "listeners.shared.fail")()
    frame = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (frame.filename, frame.line) == (
        str(project.root / "listeners/shared.py"),
        "raise ValueError('here')",
    )


def test_a_source_of_the_same_second_and_size_is_read_all_the_same(project):
    path = project.write("listeners/number.py", "value = 1\n")
    found = []
    for value in (1, 2, 3):
        stat = path.stat()
        path.write_text(f"value = {value}\n")
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        namespace = Namespace(project.root)
        found.append(resolve(project, namespace, "listeners.number.value"))
        namespace.close()
    assert found == [1, 2, 3]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("listener.greet.greet", 'there is no module "listener" in'),
        ("listeners.gret.greet", 'there is no module "gret" in "listeners" ('),
        ("listeners.greet.gret", 'there is no name "gret" in "listeners.greet" ('),
        ("listeners.gret", 'there is no name "gret" in "listeners" ('),
        ("listeners.greet", '"listeners.greet" is a module; name something in it'),
        ("listeners.bad.it", 'importing "listeners.bad" failed: '),
        ("top.it", 'importing "top" failed: '),
    ],
)
def test_a_dead_path_is_reported_by_plain_names(project, space, path, message):
    project.write("listeners/bad.py", "import listeners.nowhere\n")
    project.write("top.py", "from . import listeners\n")
    found = resolve(project, space, path)
    assert isinstance(found, ResolveFailure)
    assert found.message.startswith(message)
    assert space.name not in found.message


@pytest.mark.parametrize(
    "name", ["SystemExit", "KeyboardInterrupt", "GeneratorExit", "asyncio.CancelledError", "BaseException"]
)
def test_no_exception_of_a_module_ends_the_thread_that_loads_it(project, space, name):
    """It would end the event loop of the server that reloads."""
    project.write("listeners/bad.py", f"import asyncio\nraise {name}\n")
    with ThreadPoolExecutor(1) as beside:
        found = beside.submit(resolve, project, space, "listeners.bad.it").result()
    assert isinstance(found, ResolveFailure)
    assert "listeners/bad.py:2" in found.message


def test_an_interrupt_during_a_load_propagates(project, space):
    project.write("listeners/bad.py", "raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        resolve(project, space, "listeners.bad.it")


def test_there_is_nothing_above_a_top_level_package(project, space):
    project.write("listeners/above.py", "from .. import listeners\n")
    found = resolve(project, space, "listeners.above.it")
    assert "attempted relative import beyond top-level package" in found.message


def test_packages_without_init_and_nested_ones(project, space):
    project.write("space/deep/inner.py", "from space.deep import other\nvalue = other.value\n")
    project.write("space/deep/other.py", "value = 7\n")
    assert resolve(project, space, "space.deep.inner.value") == 7


def test_installed_packages_are_shared(project, space):
    project.write("data/readme.txt", "")
    assert resolve(project, space, "json.JSONDecoder.decode").__module__ == "json.decoder"
    assert resolve(project, space, "agentserver.contract.Code") is Code
    assert not space.owns("agentserver")


def test_a_module_that_the_process_has_from_elsewhere_is_refused_as_at_a_start(project, space):
    project.write("json.py", "value = 1\n")
    found = resolve(project, space, "json.value")
    assert isinstance(found, ResolveFailure)
    assert 'this process takes "json" from' in found.message


def test_a_load_that_fails_leaves_no_namespace(project, twice):
    project.load(ONE)
    gc.collect()  # what other tests loaded goes now, and not while this one looks
    before, finders = set(sys.modules), list(sys.meta_path)
    project.write("organism.yaml", ONE + "    agent: 5\n")
    with pytest.raises(ConfigError):
        twice()
    project.write("organism.yaml", ONE)
    project.write("listeners/greet.py", "import nowhere_at_all\n")
    with pytest.raises(ConfigError, match="nowhere_at_all"):
        twice()
    left = [one for one in sys.meta_path if one not in finders]  # those of other tests may go meanwhile
    assert (set(sys.modules) - before, left) == (set(), [])


def test_a_forgotten_organism_takes_no_room(project, twice):
    project.load(ONE)
    new = twice()
    kept = weakref.ref(new.listeners[0].handler)
    forget(new)
    del new
    gc.collect()
    assert kept() is None
