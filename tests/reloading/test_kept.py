"""Reloads of real projects: unchanged parts stay the same objects, and impossible changes are refused by name."""

from __future__ import annotations

import asyncio
import enum
import pickle
import sys

import pytest

from agentserver.assembly import ReloadRefusal, ReloadResult
from agentserver.config import ConfigError
from tests.reloading.projects import ask, modules, wait_settled
from tests.reloading.projects import project as _project

pytestmark = pytest.mark.anyio
project = _project

BOOKS = """
from contextlib import asynccontextmanager
from listeners.pages import Page

class Books:
    def __init__(self):
        self.pages = {"1": Page("first")}

@asynccontextmanager
async def library():
    yield Books()
"""

PAGES = """
from dataclasses import dataclass

@dataclass
class Page:
    text: str
"""

READER = """
from agentserver import HandlerResponse, invocation
from listeners.books import Books
from listeners.forms import Ask, Told
from listeners.pages import Page

async def look(payload: Ask, metadata) -> HandlerResponse:
    page = invocation().resource(Books).pages[payload.text]
    return HandlerResponse.respond(Told(f"WORD {page.text} {isinstance(page, Page)}"))
"""


@pytest.fixture
def library(project):
    project.write("listeners/books.py", BOOKS)
    project.write("listeners/pages.py", PAGES)
    project.write("listeners/reader.py", READER)
    project.write("listeners/other.py", "WORD = 1\n")
    project.organism(
        "name: reader, handler: listeners.reader.look", more="lifespan: listeners.books.library\n"
    )
    return project


def plainly_named():
    """The modules of projects by their plain names; other tests of this process may have left theirs of editions."""
    return {name: each for name, each in modules().items() if not name.startswith("edition")}


async def test_a_reload_without_a_change_finds_the_resources_and_keeps_each_module(library):
    """LookupError: the organism's lifespan provides no Books."""
    async with await library.server() as server:
        before = plainly_named()
        for _ in range(3):
            assert await library.reload(server) == ReloadResult("demo", 0)
            assert await ask(server, "1", "reader") == "WORD first True"
        assert plainly_named() == before


async def test_a_change_of_a_leaf_finds_the_resources(library):
    async with await library.server() as server:
        kept = {name: sys.modules[f"listeners.{name}"] for name in ("books", "pages", "forms")}
        for word in ("new", "newer"):
            library.change("listeners/reader.py", "WORD" if word == "new" else "new", word)
            assert await library.reload(server) == ReloadResult("demo", 0)
            assert await ask(server, "1", "reader") == f"{word} first True"
        assert {name: sys.modules[f"listeners.{name}"] for name in kept} == kept


async def test_a_change_of_yaml_or_of_an_unimported_file_replaces_no_module(library):
    async with await library.server() as server:
        before = sys.modules["listeners.reader"]
        library.change("listeners/other.py")
        library.change("organism.yaml", "Does.", "Reads.")
        assert await library.reload(server) == ReloadResult("demo", 0)
        assert sys.modules["listeners.reader"] is before
        assert server.organism.listeners[0].listener.description == "Reads."


@pytest.mark.parametrize(
    ("file", "name", "why"),
    [
        ("books", "Books of listeners.books", "listeners/books.py has changed"),
        ("pages", "Books of listeners.books", "it imports {root}/listeners/pages.py, which has changed"),
    ],
)
async def test_a_change_of_the_module_of_a_resource_is_refused_by_name_and_leaves_all_as_it_was(
    library, file, name, why
):
    async with await library.server() as server:
        await wait_settled(server)
        before, finders = modules(), list(sys.meta_path)
        library.change(f"listeners/{file}.py")
        found = await library.reload(server)
        assert isinstance(found, ReloadRefusal)
        told = why.replace("{root}/", f"{library.root}/")
        assert [line for line in found.reasons if line.startswith(f"a resource of lifespan: holds {name}")]
        assert found.reasons[-1].endswith(f"{told}: it needs a restart")
        assert (modules(), sys.meta_path) == (before, finders)
        assert await ask(server, "1", "reader") == "WORD first True"


async def test_an_object_inside_a_resource_counts_as_the_resource_does(project):
    """The resource is a plain dict; only what handlers put into it is of a class of the project."""
    project.write("listeners/pages.py", PAGES)
    project.write(
        "listeners/shelf.py",
        """
        from contextlib import asynccontextmanager

        @asynccontextmanager
        async def shelf():
            yield {}
        """,
    )
    project.write(
        "listeners/reader.py",
        """
        from agentserver import HandlerResponse, invocation
        from listeners.forms import Ask, Told
        from listeners.pages import Page

        async def look(payload: Ask, metadata) -> HandlerResponse:
            page = invocation().resource(dict).setdefault("page", Page(payload.text))
            return HandlerResponse.respond(Told(f"{page.text} {isinstance(page, Page)}"))
        """,
    )
    project.organism("name: reader, handler: listeners.reader.look", more="lifespan: listeners.shelf.shelf\n")
    async with await project.server() as server:
        project.change("listeners/pages.py")
        assert await project.reload(server) == ReloadResult("demo", 0)  # nothing is on the shelf yet
        assert await ask(server, "1", "reader") == "1 True"
        project.change("listeners/pages.py")
        found = await project.reload(server)
        assert "a resource of lifespan: holds Page of listeners.pages" in found.reasons[0]
        project.change(
            "listeners/reader.py"
        )  # the Page that is on the shelf is still the class that it imports
        project.write("listeners/pages.py", PAGES + f"\n# {len(PAGES)}\n")
        assert await project.reload(server) == ReloadResult("demo", 0)
        assert await ask(server, "2", "reader") == "1 True"


async def test_a_lifespan_whose_code_has_changed_is_refused(project):
    project.write(
        "listeners/tell.py",
        """
        from contextlib import asynccontextmanager
        from agentserver import HandlerResponse, invocation
        from listeners.forms import Ask, Told

        @asynccontextmanager
        async def words():
            yield "word"

        async def tell(payload: Ask, metadata) -> HandlerResponse:
            return HandlerResponse.respond(Told("old " + invocation().resource(str)))
        """,
    )
    project.organism("name: teller, handler: listeners.tell.tell", more="lifespan: listeners.tell.words\n")
    async with await project.server() as server:
        project.change("listeners/tell.py", '"old', '"new')
        assert await project.reload(server) == ReloadResult("demo", 0)
        assert await ask(server, "", "teller") == "new word"
        project.change("listeners/tell.py", '"word"', '"other"')
        assert await project.reload(server) == ReloadRefusal(("lifespan: has changed: it needs a restart",))


TALKS = "TALKS = {}\nclass Talk:\n    pass\n"

TALKING = """
from agentserver import HandlerResponse
from listeners.forms import Ask, Told
from listeners.talks import TALKS

async def talk(payload: Ask, metadata) -> HandlerResponse:
    TALKS[payload.text] = TALKS.get(payload.text, 0) + 1
    return HandlerResponse.respond(Told(f"WORD {TALKS[payload.text]}"))
"""


async def test_the_state_of_a_module_stays_while_a_module_that_uses_it_changes(project):
    project.write("listeners/talks.py", TALKS)
    project.write("listeners/talking.py", TALKING)
    project.organism("name: talker, handler: listeners.talking.talk")
    async with await project.server() as server:
        assert await ask(server, "a", "talker") == "WORD 1"
        await project.reload(server)
        assert await ask(server, "a", "talker") == "WORD 2"
        project.change("listeners/talking.py", "WORD", "new")
        await project.reload(server)
        assert await ask(server, "a", "talker") == "new 3"


async def test_the_state_of_a_package_stays_while_its_submodule_changes(project):
    project.write("listeners/__init__.py", "TALKS = {}\n")
    project.write("listeners/talking.py", TALKING.replace("listeners.talks", "listeners"))
    project.write("listeners/still.py", TALKING.replace("from listeners.talks", "from listeners"))
    project.organism(
        "name: talker, handler: listeners.talking.talk", "name: still, handler: listeners.still.talk"
    )
    async with await project.server() as server:
        assert await ask(server, "a", "talker") == "WORD 1"
        for count, word in enumerate(("new", "newer"), start=1):
            project.change("listeners/talking.py", "WORD" if count == 1 else "new", word)
            await project.reload(server)
            assert await ask(server, "a", "talker") == f"{word} {2 * count}"
            assert await ask(server, "a", "still") == f"WORD {2 * count + 1}"
        assert sys.modules["listeners"].talking is sys.modules["listeners.talking"]
        assert sys.modules["listeners"].still is sys.modules["listeners.still"]


KINDS = """
import enum

class Kind(enum.Enum):
    GOOD = "good"
"""

SORTING = """
from agentserver import HandlerResponse
from listeners.forms import Ask, Told
from listeners.kinds import Kind
from listeners.talks import TALKS

async def sort(payload: Ask, metadata) -> HandlerResponse:
    before = TALKS.setdefault("kind", [Kind.GOOD])
    return HandlerResponse.respond(Told(f"WORD {before[0] is Kind.GOOD}"))
"""


async def test_a_member_of_an_enumeration_in_the_state_of_a_module(project):
    project.write("listeners/kinds.py", KINDS)
    project.write("listeners/talks.py", TALKS)
    project.write("listeners/sorting.py", SORTING)
    project.organism("name: sorter, handler: listeners.sorting.sort")
    async with await project.server() as server:
        assert await ask(server, "a", "sorter") == "WORD True"
        project.change("listeners/sorting.py", "WORD", "new")
        assert await project.reload(server) == ReloadResult("demo", 0)
        assert await ask(server, "a", "sorter") == "new True"
        await wait_settled(server)
        before, finders = modules(), list(sys.meta_path)
        project.change("listeners/kinds.py", '"good"', '"better"')
        with pytest.raises(ConfigError) as refused:
            await project.reload(server)
        assert str(refused.value) == (
            f"{project.root}/listeners/talks.py:1: TALKS holds Kind of listeners.kinds, which would be another: "
            f"{project.root}/listeners/kinds.py has changed (restart the server)"
        )
        assert (modules(), sys.meta_path) == (before, finders)
        assert await ask(server, "a", "sorter") == "new True"
        assert issubclass(sys.modules["listeners.kinds"].Kind, enum.Enum)


async def test_a_registry_is_refused_before_anything_registers_once_more(project):
    project.write(
        "listeners/base.py",
        """
        class Base:
            known = []
            def __init_subclass__(cls):
                cls.known.append(cls)
        """,
    )
    project.write(
        "listeners/child.py",
        """
        from agentserver import HandlerResponse
        from listeners.base import Base
        from listeners.forms import Ask, Told

        class Child(Base):
            pass

        async def count(payload: Ask, metadata) -> HandlerResponse:
            return HandlerResponse.respond(Told(str(len(Base.known))))
        """,
    )
    project.organism("name: counter, handler: listeners.child.count")
    async with await project.server() as server:
        assert await ask(server, "", "counter") == "1"
        project.change("listeners/child.py")
        with pytest.raises(ConfigError, match=r"Base holds Child of listeners\.child"):
            await project.reload(server)
        assert await ask(server, "", "counter") == "1"


async def test_a_class_is_replaced_with_those_that_inherit_from_it(project):
    project.write("listeners/base.py", "class Base:\n    word = 'old'\n")
    project.write("listeners/child.py", "from .base import Base\nclass Child(Base):\n    pass\n")
    project.write(
        "listeners/tell.py",
        """
        from agentserver import HandlerResponse
        from listeners import child
        from listeners.base import Base
        from listeners.forms import Ask, Told

        async def tell(payload: Ask, metadata) -> HandlerResponse:
            return HandlerResponse.respond(Told(f"{child.Child.word} {issubclass(child.Child, Base)}"))
        """,
    )
    project.organism("name: teller, handler: listeners.tell.tell")
    async with await project.server() as server:
        base, forms = sys.modules["listeners.base"], sys.modules["listeners.forms"]
        project.change("listeners/child.py")
        await project.reload(server)
        assert await ask(server, "", "teller") == "old True"
        assert sys.modules["listeners.base"] is base
        project.change("listeners/base.py", "old", "new")
        await project.reload(server)
        assert await ask(server, "", "teller") == "new True"
        assert sys.modules["listeners.forms"] is forms


async def test_pickles_name_the_class_that_runs(project):
    project.write("listeners/pages.py", PAGES)
    project.write("listeners/notes.py", PAGES.replace("Page", "Note"))
    project.write(
        "listeners/tell.py",
        """
        from agentserver import HandlerResponse
        from listeners.forms import Ask, Told
        from listeners.notes import Note
        from listeners.pages import Page

        async def tell(payload: Ask, metadata) -> HandlerResponse:
            return HandlerResponse.respond(Told("told"))
        """,
    )
    project.organism("name: teller, handler: listeners.tell.tell")
    async with await project.server() as server:
        page, note = sys.modules["listeners.pages"].Page("p"), sys.modules["listeners.notes"].Note("n")
        pickled = pickle.dumps(page), pickle.dumps(note)
        project.change("listeners/notes.py")
        await project.reload(server)
        assert [type(pickle.loads(each)) for each in pickled] == [
            type(page),
            sys.modules["listeners.notes"].Note,
        ]
        assert type(pickle.loads(pickled[1])) is not type(note)
        later = pickle.dumps(sys.modules["listeners.notes"].Note("n"))
        assert later == pickled[1]  # as a start after this one would write and read it
        assert (await asyncio.to_thread(__import__, "listeners.notes")).notes.Note is type(
            pickle.loads(later)
        )


async def test_payload_classes_of_several_modules_are_replaced_together_while_conversations_work(project):
    """One handler is in the middle of its work with the classes of before."""
    project.write(
        "listeners/front.py",
        """
        import asyncio
        import listeners.forms
        from agentserver import HandlerResponse
        from listeners.forms import Ask

        at_work, go = asyncio.Event(), asyncio.Event()

        async def front(payload: Ask | listeners.forms.Told, metadata) -> HandlerResponse:
            if isinstance(payload, Ask):
                return HandlerResponse(Ask(payload.text), "back")
            if payload.text == "slow":
                at_work.set()
                await go.wait()
            assert isinstance(payload, listeners.forms.Told)
            return HandlerResponse.respond(listeners.forms.Told(f"WORD {payload.text}"))
        """,
    )
    project.write(
        "listeners/back.py",
        """
        from agentserver import HandlerResponse
        from listeners.forms import Ask, Told

        async def back(payload: Ask, metadata) -> HandlerResponse:
            return HandlerResponse.respond(Told(payload.text))
        """,
    )
    project.organism(
        "name: front, handler: listeners.front.front, peers: [back]",
        "name: back, handler: listeners.back.back",
    )
    async with await project.server() as server:
        old = sys.modules["listeners.front"]
        slow = asyncio.create_task(ask(server, "slow", "front"))
        await old.at_work.wait()
        project.change("listeners/forms.py", "text: str", "text: str\n    more: str = ''")
        project.change("listeners/front.py", "WORD", "new")
        assert await project.reload(server) == ReloadResult("demo", 1)
        assert await ask(server, "quick", "front") == "new quick"
        old.go.set()
        assert await slow == "WORD slow"
        assert await ask(server, "quick", "back") == "quick"


async def test_a_guard_of_the_project_knows_the_classes_that_it_has_imported(project):
    project.write(
        "listeners/guarding.py",
        """
        from agentserver.guards import Guard
        from listeners.forms import Ask

        class Polite(Guard):
            def judge(self, message, memory):
                polite = isinstance(message.payload, Ask) and message.payload.text == "please"
                return None if polite or not isinstance(message.payload, Ask) else "say please"
        """,
    )
    project.write(
        "listeners/tell.py",
        """
        from agentserver import HandlerResponse
        from listeners.forms import Ask, Told

        async def tell(payload: Ask, metadata) -> HandlerResponse:
            return HandlerResponse.respond(Told("WORD"))
        """,
    )
    guard = "guards: [{use: listeners.guarding.Polite, name: polite}]\n"
    project.organism("name: teller, handler: listeners.tell.tell", more=guard)
    async with await project.server() as server:
        for word, file in (("WORD", "tell"), ("new", "forms"), ("new", "guarding")):
            assert await ask(server, "please", "teller") == word
            assert (await ask(server, "now", "teller")).startswith("denied")
            project.change(f"listeners/{file}.py", *(("WORD", "new") if file == "tell" else ()))
            assert await project.reload(server) == ReloadResult("demo", 0)


async def test_a_module_that_a_handler_imports_late_is_kept_too(project):
    project.write("listeners/late.py", "SEEN = []\n")
    project.write(
        "listeners/tell.py",
        """
        from agentserver import HandlerResponse
        from listeners.forms import Ask, Told

        async def tell(payload: Ask, metadata) -> HandlerResponse:
            from listeners.late import SEEN
            SEEN.append(payload.text)
            return HandlerResponse.respond(Told(f"WORD {len(SEEN)}"))
        """,
    )
    project.organism("name: teller, handler: listeners.tell.tell")
    async with await project.server() as server:
        assert await ask(server, "", "teller") == "WORD 1"
        for count, word in enumerate(("new", "newer"), start=2):
            project.change("listeners/tell.py", "WORD" if count == 2 else "new", word)
            await project.reload(server)
            assert await ask(server, "", "teller") == f"{word} {count}"
        project.write("listeners/late.py", "SEEN = [1, 2, 3, 4, 5, 6]\n")
        await project.reload(server)
        assert await ask(server, "", "teller") == "newer 7"


async def test_a_load_that_fails_half_way_leaves_all_as_it_was(library):
    async with await library.server() as server:
        library.change("listeners/reader.py", "WORD", "new")
        await library.reload(server)
        await wait_settled(server)
        before, finders = modules(), list(sys.meta_path)
        library.change("listeners/forms.py")
        library.change("listeners/reader.py", "async def look", "raise OSError('half')\nasync def look")
        with pytest.raises(ConfigError, match="half"):
            await library.reload(server)
        library.change("listeners/reader.py", "raise OSError('half')\n", "")
        library.change("organism.yaml", "Does.}", "Does., peers: [nobody]}")
        with pytest.raises(ConfigError, match="nobody"):
            await library.reload(server)
        assert (modules(), sys.meta_path) == (before, finders)
        assert await ask(server, "1", "reader") == "new first True"
        library.change("organism.yaml", ", peers: [nobody]", "")
        assert await library.reload(server) == ReloadResult("demo", 0)
        assert await ask(server, "1", "reader") == "new first True"


async def test_a_changed_module_that_is_imported_by_a_computed_name_is_refused(project):
    project.write("listeners/words.py", "WORD = 'old'\n")
    project.write(
        "listeners/tell.py",
        """
        import importlib
        from agentserver import HandlerResponse
        from listeners.forms import Ask, Told

        words = importlib.import_module(".".join(["listeners", "words"]))

        async def tell(payload: Ask, metadata) -> HandlerResponse:
            return HandlerResponse.respond(Told(words.WORD))
        """,
    )
    project.organism("name: teller, handler: listeners.tell.tell")
    async with await project.server() as server:
        project.change("listeners/words.py", "old", "new")
        with pytest.raises(ConfigError, match=r"tell\.py:6: words holds the code of listeners\.words"):
            await project.reload(server)
        assert await ask(server, "", "teller") == "old"


TELL = """
from agentserver import HandlerResponse
from listeners.forms import Ask, Told
IMPORTS

async def tell(payload: Ask, metadata) -> HandlerResponse:
    return HandlerResponse.respond(Told(str(VALUE)))
"""


async def test_packages_inside_packages_are_kept_or_replaced_each_by_itself(project):
    deep = "(listeners.deep.NUMBER, len(listeners.deep.leaf.SEEN), listeners.deep.leaf.SEEN.append(1))"
    project.write("listeners/deep/__init__.py", "NUMBER = 1\n")
    project.write("listeners/deep/leaf.py", "SEEN = []\n")
    project.write(
        "listeners/tell.py",
        TELL.replace("IMPORTS", "import listeners.deep\nimport listeners.deep.leaf").replace("VALUE", deep),
    )
    project.organism("name: teller, handler: listeners.tell.tell")
    async with await project.server() as server:
        assert await ask(server, "", "teller") == "(1, 0, None)"
        leaf = sys.modules["listeners.deep.leaf"]
        project.change("listeners/deep/__init__.py", "1", "2")
        assert await project.reload(server) == ReloadResult("demo", 0)
        assert await ask(server, "", "teller") == "(2, 1, None)"
        assert sys.modules["listeners.deep.leaf"] is leaf
        assert sys.modules["listeners.deep"].leaf is leaf
        project.change("listeners/__init__.py")
        assert await project.reload(server) == ReloadResult("demo", 0)
        assert await ask(server, "", "teller") == "(2, 2, None)"
        project.change("listeners/deep/leaf.py")
        assert await project.reload(server) == ReloadResult("demo", 0)
        assert await ask(server, "", "teller") == "(2, 0, None)"


async def test_packages_without_init_and_modules_that_come_and_go(project):
    space = "(other.NUMBER, len(leaf.SEEN), leaf.SEEN.append(1))"
    project.write("listeners/space/leaf.py", "SEEN = []\n")
    project.write("listeners/space/other.py", "NUMBER = 1\n")
    project.write(
        "listeners/tell.py",
        TELL.replace("IMPORTS", "from listeners.space import leaf, other").replace("VALUE", space),
    )
    project.organism("name: teller, handler: listeners.tell.tell")
    async with await project.server() as server:
        assert await ask(server, "", "teller") == "(1, 0, None)"
        project.change("listeners/space/other.py", "1", "2")
        assert await project.reload(server) == ReloadResult("demo", 0)
        assert await ask(server, "", "teller") == "(2, 1, None)"
        project.write("listeners/space/fresh.py", "NUMBER = 9\n")
        project.change("listeners/tell.py", "import leaf, other", "import leaf, other, fresh")
        project.change("listeners/tell.py", "(other.NUMBER", "(fresh.NUMBER")
        assert await project.reload(server) == ReloadResult("demo", 0)
        assert await ask(server, "", "teller") == "(9, 2, None)"
        (project.root / "listeners/space/other.py").unlink()
        project.change("listeners/tell.py", "leaf, other, fresh", "leaf, fresh")
        assert await project.reload(server) == ReloadResult("demo", 0)
        assert await ask(server, "", "teller") == "(9, 3, None)"
        assert "listeners.space.other" not in sys.modules


async def test_a_project_that_became_unreadable_refuses_the_reload(library):
    async with await library.server() as server:
        library.change("listeners/reader.py", "WORD", "new")
        organism = await library.load(server.organism)
        library.root.rename(library.root.with_name("elsewhere"))
        found = await server.reload(organism)
        assert isinstance(found, ReloadRefusal)
        assert found.reasons[0].startswith("FileNotFoundError: ")
        assert await ask(server, "1", "reader") == "WORD first True"


FUNCTION = """
from dataclasses import dataclass

@dataclass
class Told:
    text: str

async def tell(text: str) -> Told:
    return Told("old " + text)
"""


async def test_a_function_takes_other_parameters_after_a_reload(project):
    project.write("listeners/tell.py", FUNCTION)
    project.organism("name: teller, handler: listeners.tell.tell")
    async with await project.server() as server:
        assert await ask(server, "a", "teller") == "old a"
        (first,) = server.rules.blueprint.listeners["teller"].payloads
        project.write(
            "listeners/tell.py",
            FUNCTION.replace("old", "new").replace("text: str)", "text: str, more: int = 2)"),
        )
        assert isinstance(await project.reload(server), ReloadResult)
        assert await ask(server, "a", "teller") == "new a"
        (second,) = server.rules.blueprint.listeners["teller"].payloads
        assert second is not first
        assert second.__module__ == "listeners.tell" != first.__module__
