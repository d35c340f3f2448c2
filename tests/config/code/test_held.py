"""Objects in reach of a value: those that the project's own code keeps, and none of a library's."""

import functools
import logging
import sys
from collections import OrderedDict, defaultdict, deque
from types import ModuleType

import pytest

from agentserver.config.code import editions
from agentserver.config.code.editions import ObjectInUse, Search

PAGES = """
class Page:
    pass

class Odd(type):
    def __getattribute__(cls, name): raise SystemExit("asked")

def turn(): pass
"""

SHELF = """
import functools

class Shelf:
    def __init__(self, thing): self.thing = thing

class Slotted:
    __slots__ = ("thing",)
    def __init__(self, thing): self.thing = thing

def closing(thing):
    def inner(): return thing
    return inner

@functools.cache
def cached(thing): return thing
"""


@pytest.fixture
def project(monkeypatch):
    """Two modules: one would be replaced, the other is kept."""
    made = []
    for name, code in (("pages_of_it", PAGES), ("shelf_of_it", SHELF)):
        module = ModuleType(name)
        exec(code, vars(module))
        monkeypatch.setitem(sys.modules, name, module)
        made.append(module)
    return made


def first(value):
    return Search({"pages_of_it"}, {"pages_of_it", "shelf_of_it"}).find_first(value)


def ways(page, shelf):
    shelf.cached(page)
    default = defaultdict(list)
    default["a"].append(page)
    return {
        "itself": page,
        "list": [1, [page]],
        "dict": {"a": {"b": (page,)}},
        "key": {(1, page): 2},
        "set": {page},
        "deque": deque([page]),
        "defaultdict": default,
        "OrderedDict": OrderedDict(a=page),
        "object": shelf.Shelf([page]),
        "slots": shelf.Slotted(page),
        "closure": shelf.closing(page),
        "cache": shelf.cached,
        "partial": functools.partial(shelf.closing, page),
        "class": type("Own", (shelf.Shelf,), {"kept": [page], "__module__": "shelf_of_it"}),
        "generator": (each for each in [page]),
    }


WAYS = [
    "itself",
    "list",
    "dict",
    "key",
    "set",
    "deque",
    "defaultdict",
    "OrderedDict",
    "object",
    "slots",
    "closure",
    "cache",
    "partial",
    "class",
    "generator",
]


@pytest.mark.parametrize("way", WAYS)
def test_an_object_is_found_wherever_the_projects_code_keeps_it(project, way):
    pages, shelf = project
    assert sorted(ways(pages.Page(), shelf)) == sorted(WAYS)
    assert first(ways(pages.Page(), shelf)[way]) == ObjectInUse("Page", "pages_of_it")
    shelf.cached.cache_clear()
    assert first(ways("a text", shelf)[way]) is None


def test_classes_functions_and_modules_are_found_without_calling_them(project):
    pages, _ = project
    assert first([pages.Page]) == ObjectInUse("Page", "pages_of_it")
    assert first([pages.turn]) == ObjectInUse("turn", "pages_of_it")
    assert first([pages]) == ObjectInUse("the code", "pages_of_it")
    assert first([type("Child", (pages.Page,), {"__module__": "shelf_of_it"})]) == ObjectInUse(
        "Page", "pages_of_it"
    )
    assert first([pages.Odd("Asked", (), {"__module__": "shelf_of_it"})]) == ObjectInUse("Odd", "pages_of_it")


def test_objects_of_libraries_are_not_looked_into(project):
    pages, _ = project
    logger = logging.LoggerAdapter(logging.getLogger(__name__))
    logger.page = pages.Page()
    assert first([logger]) is None


def test_a_cycle_ends_and_too_large_a_graph_is_reported(project, monkeypatch):
    circle = []
    circle.append(circle)
    assert first(circle) is None
    monkeypatch.setattr(editions, "LOOKED", 100)
    assert first([[] for _ in range(99)]) is None
    assert first([[] for _ in range(200)]) == ObjectInUse("", "")
