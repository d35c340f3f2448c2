"""The house rules that a machine can hold, read from the syntax trees of the package.

Each rule is a generator of findings over one module. A finding is an error unless WAIVERS gives a reason for it, and a
waiver that nothing needs is an error too. The last test prints the figures of the whole package in one row.
"""

from __future__ import annotations

import ast
import graphlib
import importlib
import re
from collections import defaultdict
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache, cached_property
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "agentserver"

BODY_LINES = 40
COMPLEXITY = 10
NESTING = 3
PARAMETERS = 6
WAIVERS = {
    (
        "catch-all",
        "agentserver/worker/bench.py",
    ): "the boundary of a handler in its own process, as pump/invoke.py is in the server's",
    (
        "parameters",
        "agentserver/guards/lineage/reading.py:ObservedMessage.__init__",
    ): "a value whose last part is read when it is needed",
    (
        "parameters",
        "agentserver/core/decide/admission.py:admit",
    ): "one path for every message: the last two tell the place of one of several, and who rewrites it",
    (
        "parameters",
        "agentserver/core/decide/step.py:Step.__init__",
    ): "the facts of a step; the last three are optional and named",
    (
        "parameters",
        "agentserver/completion.py:CompletionError.__init__",
    ): "the facts of a failure; all but two are optional and named",
    (
        "parameters",
        "agentserver/llm/__init__.py:complete",
    ): "the one question to a model; all but two are optional and named",
    (
        "parameters",
        "agentserver/assembly.py:build",
    ): "the one entrance of programs; everything but the organism is optional and named",
    (
        "catch-all",
        "agentserver/pump/calls.py",
    ): "is a task: what its work raises is for the one who waits for it",
    (
        "catch-all",
        "agentserver/begun.py",
    ): "hands an exception on to the work that it is meant for",
    (
        "catch-all",
        "agentserver/telemetry/export.py",
    ): "a step that cannot be told costs its own spans, and the thread goes on with the next",
    (
        "catch-all",
        "agentserver/reloading/keepers.py",
    ): "loading another edition runs a project's modules, which may raise anything; the running edition goes on",
    (
        "catch-all",
        "agentserver/config/code/userland.py",
    ): "importing a project's module may raise anything; it becomes a finding",
    ("markup", "agentserver/payload/xsd_codec.py"): "looks for a document type in order to refuse it",
    ("markup", "agentserver/payload/generate.py"): "writes the source of the codec that codec.py owns",
    ("markup", "agentserver/wire/repair_search.py"): "closes the elements that a text left open",
    ("markup", "agentserver/wire/repair.py"): "puts a text into one element to have it read by envelope.py",
    (
        "catch-all",
        "agentserver/handoff/validation/validator.py",
    ): "whatever a foreign schema sets off in its own process is an answer",
    ("markup", "agentserver/gateways/console/lines.py"): "a placeholder in a line of help",
    ("markup", "agentserver/gateways/console/view.py"): "a line of help shows what raw XML looks like",
    (
        "parameters",
        "agentserver/provenance/sleuth.py:Sleuth.__init__",
    ): "the library face has the signature users know",
    (
        "parameters",
        "agentserver/testing/kit.py:organism",
    ): "the kit's one entrance; everything but the organism is optional and named",
    (
        "markup",
        "agentserver/trace/text.py",
    ): "the document type of a page whose content is built as a tree",
    ("print", "agentserver/trace/terminal.py"): "the console's screen",
}
"""What breaks a rule all the same. A place is `path` or `path:name`."""

CATCH_ALL = {
    "agentserver/pump/invoke.py": 2,
    "agentserver/pump/boundary.py": 1,
    "agentserver/pump/steps.py": 1,
    "agentserver/gateways/*": 1,
    "agentserver/guards/hosting.py": 1,
    "agentserver/pump/records.py": 2,
    "agentserver/pump/approvals.py": 1,
    "agentserver/mcp/client/connection.py": 1,
    "agentserver/llm/providers.py": 1,
    "agentserver/supervision.py": 2,
    "agentserver/flow/runner.py": 3,
}
"""Where any exception becomes a value, and in how many handlers: around user code (a handler, the message of what it
raised, a guard, an observer), at the boundary of one delivery (its
handling, its step, its observers), in one connection loop, around the libraries that read a provider's
answer, and around a helper, whose end has a stated consequence."""

OWN_JSON = {
    "agentserver/foreign_json/*": "the one reader",
    "agentserver/config/*": "values of a YAML document, whose bytes, depth and nodes were counted before",
    "agentserver/provenance/policy/file.py": "values of a YAML document, as above",
    "agentserver/codec.py": "kept values; those of other parties come to it as what foreign_json has read",
    "agentserver/engines/*": "rows that this server's own engine has kept",
    "agentserver/history/export.py": "causes and records of a step that the engine has kept",
    "agentserver/guards/lineage/memory.py": "the memory of a guard, which the engine has kept",
    "agentserver/provenance/endorsements.py": "the subject of an approval, which the engine has kept",
    "agentserver/flow/results.py": "an operator's answer, which the command line has read as JSON within limits",
    "agentserver/guards/hosting.py": "the memory of a program's own guard, which the engine has kept",
    "agentserver/cli/init.py": "a table that the package brings",
    "agentserver/trace/text.py": "what it has just written itself",
    "agentserver/mcp/serving/protocol.py": "a state that the server has sealed itself",
    "agentserver/worker/exec_walled.py": "an argument that the server gives to a process that it starts",
    "agentserver/worker/frames.py": "the frames that a worker has from its own server; all others are counted there",
    "agentserver/worker/__main__.py": "the setup that the server sends to its worker",
    "agentserver/handoff/validation/validator.py": "a process of its own under limits of the kernel, without imports",
    "agentserver/handoff/managed/document.py": "one text of at most a name's length, cut out by the scanner",
    "agentserver/provenance/evidence/layouts.py": "a part of a payload, which was counted when it came; at most LONGEST",
    "agentserver/provenance/evidence/leaves.py": "a part of a payload, which was counted when it came",
    "agentserver/provenance/adapters/*": "arguments that a framework of the same process has read already",
}
"""Where JSON is read or held against a model without agentserver/foreign_json, and why it is not foreign there."""

JSON_CALLS = {"validate_json", "validate_python", "validate_strings", "model_validate", "model_validate_json",
              "model_validate_strings", "from_json", "parse_raw", "raw_decode", "JSONDecoder"}  # fmt: skip

BARE_STARTS = {
    "agentserver/supervision.py": "the one place",
    "agentserver/pump/steps.py": "a commit, whose end is settled by a callback",
    "agentserver/pump/poison_search.py": "waits for nothing; its cancellation is what is looked for",
    "agentserver/pump/slices.py": "is awaited to its end by the one who starts it",
    "agentserver/cli/process.py": "two threads that end the process",
    "agentserver/engines/conformance/*": "tests of engines",
}
"""Where tasks and threads are started without agentserver/supervision.py, and why none of them ends unseen."""

STARTS = {"start_soon", "create_task", "ensure_future", "start_new_thread", "run_coroutine_threadsafe"}
THREADS = {"threading.Thread", "threading.Timer"}

WRITERS = ("agentserver/cli/*", "agentserver/gateways/console/console*")
"""Who may write to standard output and error."""

MARKUP = (
    "agentserver/wire/envelope.py",
    "agentserver/payload/codec.py",
    "agentserver/payload/xsd/schema.py",
)
"""Who may write a tag. A tag is `<name ...>`, `</name>`, `<?name` or `<!NAME` in any string that is no docstring; the
parts of an f-string that are computed count as a name, so f"<{tag}>" is one; a named group of a pattern does not."""

TAG = re.compile(r"(?<!\?P)</?[A-Za-z_][\w.:-]*(\s[^<>]*)?/?>|<\?[A-Za-z]|<!\[?[A-Z]")

CONTAINERS = {"dict", "list", "set", "defaultdict", "deque", "Counter", "OrderedDict", "WeakKeyDictionary",
              "WeakValueDictionary", "WeakSet", "ChainMap", "bytearray"}  # fmt: skip
MUTATORS = {"add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "popleft", "remove",
            "setdefault", "update", "move_to_end", "__setitem__"}  # fmt: skip

THREADING = {"Lock", "RLock", "Condition", "Event", "Semaphore", "ThreadPoolExecutor", "ProcessPoolExecutor", "Queue",
             "SimpleQueue", "local", "count", "cycle"}  # fmt: skip

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.TryStar, ast.Match)
BRANCHES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.match_case)


@dataclass(frozen=True)
class Module:
    path: str
    text: str
    tree: ast.Module

    @property
    def name(self):
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @cached_property
    def nodes(self):
        """Every node by its kind, walked once for all rules."""
        kinds = defaultdict(list)
        for node in ast.walk(self.tree):
            kinds[type(node)].append(node)
        return kinds

    def of(self, *kinds):
        return chain.from_iterable(self.nodes[kind] for kind in kinds)

    @cached_property
    def functions(self):
        """Each function with its dotted name."""
        return list(self._functions(self.tree, ""))

    def _functions(self, node, prefix):
        for child in own(node):
            if isinstance(child, (*FUNCTIONS, ast.ClassDef)):
                name = f"{prefix}{child.name}"
                if isinstance(child, FUNCTIONS):
                    yield name, child
                yield from self._functions(child, f"{name}.")


@dataclass(frozen=True)
class Finding:
    rule: str
    place: str
    line: int
    text: str

    def __str__(self):
        return f"{self.place} (line {self.line}): {self.rule}: {self.text}"


def load(path):
    text = path.read_text("utf-8")
    return Module(path.relative_to(ROOT).as_posix(), text, ast.parse(text))


@cache
def modules():
    """Every module of the package, parsed when the first test asks and not while tests are collected."""
    return [load(path) for path in sorted(PACKAGE.rglob("*.py")) if "scaffold" not in path.parts]


@cache
def module_names():
    return {module.name for module in modules()}


# --- measures --------------------------------------------------------------------------------------------------------


def dotted_name(node):
    """The dotted name of an expression; empty for any other."""
    if isinstance(node, ast.Name):
        return node.id
    before = dotted_name(node.value) if isinstance(node, ast.Attribute) else ""
    return f"{before}.{node.attr}" if before else ""


def own(function):
    """The statements of a function, class or module without those of the functions and classes inside it."""
    todo = list(function.body)
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            todo.extend(child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr))


def body_lines(function):
    """From the first statement after the docstring to the last line."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def complexity(function):
    """McCabe's number over statements, as ruff counts it: one, and one more for each place where the way parts."""
    return 1 + sum(isinstance(node, BRANCHES) for node in own(function))


def nesting(node, depth=0):
    """Count nested blocks; an `elif` is on the level of its `if`."""
    deepest = depth
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, (*FUNCTIONS, ast.ClassDef, ast.expr)):
                continue
            chained = (
                isinstance(node, ast.If)
                and field == "orelse"
                and isinstance(child, ast.If)
                and len(value) == 1
            )
            deepest = max(deepest, nesting(child, depth + (isinstance(child, BLOCKS) and not chained)))
    return deepest


def parameters(function):
    args = function.args
    names = [arg.arg for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


# --- rules -----------------------------------------------------------------------------------------------------------


def sizes(module):
    measures = (("body", body_lines, BODY_LINES), ("complexity", complexity, COMPLEXITY),
                ("nesting", nesting, NESTING), ("parameters", parameters, PARAMETERS))  # fmt: skip
    for name, function in module.functions:
        for rule, measure, cap in measures:
            if measure(function) > cap:
                text = f"{measure(function)}, {cap} allowed"
                yield Finding(rule, f"{module.path}:{name}", function.lineno, text)


def opening(module):
    docstring = ast.get_docstring(module.tree) or ""
    if not docstring.split("\n")[0].strip():
        yield Finding("opening", module.path, 1, "no docstring that says what the module owns")


def global_state(module):
    for node in module.of(ast.Global):
        yield Finding("global", module.path, node.lineno, ", ".join(node.names))
    for name, function in module.functions:
        for decorator in function.decorator_list:
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            if ast.unparse(called).rpartition(".")[2] in {"lru_cache", "cache"}:
                yield Finding(
                    "cache", f"{module.path}:{name}", function.lineno, "a cache that servers would share"
                )


def containers(module):
    """Names that a module binds to something that can be changed in place."""
    for node in module.tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        value = getattr(node, "value", None)
        display = isinstance(value, (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp))
        made = isinstance(value, ast.Call) and ast.unparse(value.func).rpartition(".")[2] in CONTAINERS
        if display or made:
            yield from (target.id for target in targets if isinstance(target, ast.Name))


def changed_name(node):
    """The name whose value this node changes in place, if any."""
    target = None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS:
        target = node.func.value
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, (ast.Store, ast.Del)):
        target = node.value
    elif isinstance(node, ast.AugAssign):
        target = node.target
    return target.id if isinstance(target, ast.Name) else None


def mutated_containers(module):
    shared = set(containers(module))
    for node in module.of(ast.Call, ast.Subscript, ast.AugAssign):
        if changed_name(node) in shared:
            yield Finding("mutated", module.path, node.lineno, f"{changed_name(node)} belongs to the module")


def stateful_classes():
    """The package's classes whose instances change: dataclasses that are not frozen, and those with ``__init__``."""
    for module in modules():
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef):
                decorators = [ast.unparse(each) for each in node.decorator_list]
                open_ = any("dataclass" in each and "frozen=True" not in each for each in decorators)
                made = any(isinstance(each, FUNCTIONS) and each.name == "__init__" for each in node.body)
                if (open_ or made) and node.name not in IMMUTABLE:
                    yield node.name


def kept_objects(module):
    """Objects with a state of their own that a module keeps, and that servers would share."""
    for node in module.tree.body:
        value = getattr(node, "value", None)
        made = ast.unparse(value.func).rpartition(".")[2] if isinstance(value, ast.Call) else ""
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and made in stateful():
            yield Finding("kept", module.path, node.lineno, f"{made} has a state that servers would share")


def frozen_caches(module):
    """Frozen dataclasses that change one of their fields in place, or begin with something that does."""
    for kind in module.of(ast.ClassDef):
        if not any(map(is_frozen, kind.decorator_list)):
            continue
        place = f"{module.path}:{kind.name}"
        for node in ast.walk(kind):
            if own_field(node):
                yield Finding(
                    "frozen cache", place, node.lineno, f"self.{own_field(node)} is changed in place"
                )
            elif isinstance(node, ast.Call) and factory_of(node) in stateful():
                yield Finding("frozen cache", place, node.lineno, f"begins with a {factory_of(node)}")


def is_frozen(decorator):
    return "frozen=True" in ast.unparse(decorator)


def own_field(node):
    """The field of ``self`` whose value this node changes in place, if any."""
    call = (
        node.value if isinstance(node, ast.Expr) else node
    )  # "add" may give another value, which is then used
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
        mutators = MUTATORS if call is not node else {"pop", "popitem", "setdefault"}
        target = call.func.value if call.func.attr in mutators else None
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, (ast.Store, ast.Del)):
        target = node.value
    else:
        return None
    while isinstance(target, ast.Subscript):
        target = target.value
    is_own = isinstance(target, ast.Attribute) and dotted_name(target.value) == "self"
    return target.attr if is_own else None


def factory_of(call):
    factories = [each.value for each in call.keywords if each.arg == "default_factory"]
    return ast.unparse(factories[0]).rpartition(".")[2] if factories else ""


def getters(module):
    for node in module.tree.body:
        if isinstance(node, FUNCTIONS) and node.name.startswith("get_") and node.name != "get_todo_registry":
            yield Finding("get_x", f"{module.path}:{node.name}", node.lineno, "what is needed is passed in")


def catch_alls(module):
    allowed = next((count for pattern, count in CATCH_ALL.items() if fnmatch(module.path, pattern)), 0)
    broad = [node for node in module.of(ast.ExceptHandler) if is_broad(node)]
    for node in broad[allowed:]:
        yield Finding("catch-all", module.path, node.lineno, "names the exceptions it means")


def bare_starts(module):
    """Background work that could end without anybody hearing of it."""
    if not any(fnmatch(module.path, pattern) for pattern in BARE_STARTS):
        for line in starts(module):
            yield Finding("bare start", module.path, line, "agentserver/supervision.py starts it by a name")


def starts(module):
    """The lines on which a task or a thread is started, or a way to do so is imported by a bare name."""
    for node in module.of(ast.Attribute, ast.Call, ast.ImportFrom):
        named = node.attr if isinstance(node, ast.Attribute) else ""
        called = dotted_name(node.func) if isinstance(node, ast.Call) else ""
        imported = isinstance(node, ast.ImportFrom) and node.module in {"threading", "asyncio", "_thread"}
        names = {alias.name for alias in node.names} if imported else set()
        if named in STARTS or called in THREADS or names & {*STARTS, "Thread", "Timer"}:
            yield node.lineno


def is_broad(handler):
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or ast.unparse(kind) in {"Exception", "BaseException"} for kind in kinds)


def writers(module):
    if any(fnmatch(module.path, pattern) for pattern in WRITERS):
        return
    for node in module.of(ast.Call, ast.Attribute):
        prints = isinstance(node, ast.Call) and dotted_name(node.func) in {"print", "pprint", "pprint.pprint"}
        stream = isinstance(node, ast.Attribute) and dotted_name(node) in {"sys.stdout", "sys.stderr"}
        if prints or stream:
            yield Finding("print", module.path, node.lineno, ast.unparse(node)[:60])


def markup(module):
    if module.path in MARKUP:
        return
    passed = {id(node.value) for node in module.of(ast.Expr)}
    passed |= {id(part) for node in module.of(ast.JoinedStr) for part in node.values}
    for node in module.of(ast.Constant, ast.JoinedStr):
        if id(node) not in passed and (tag := TAG.search(written_text(node))):
            yield Finding("markup", module.path, node.lineno, tag.group())


def foreign_json(module):
    """Foreign JSON is counted before it is read, so it is read in one place."""
    if any(fnmatch(module.path, pattern) for pattern in OWN_JSON):
        return
    yield from json_reads(module)


def json_reads(module):
    for node in module.of(ast.ImportFrom, ast.Call, ast.Attribute):
        if isinstance(node, ast.ImportFrom) and node.module in {"json", "pydantic_core"}:
            names = {each.name for each in node.names} & {
                "loads",
                "load",
                "JSONDecoder",
                "from_json",
                "SchemaValidator",
            }
        elif (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "errors"
        ):
            names = {ast.unparse(node.func)}
        elif isinstance(node, ast.Attribute):
            called = dotted_name(node) or node.attr
            names = {called} if node.attr in JSON_CALLS or called in {"json.loads", "json.load"} else set()
        else:
            names = set()
        for name in names:
            yield Finding(
                "foreign json", module.path, node.lineno, f"{name}: read it with agentserver/foreign_json"
            )


def written_text(node):
    if isinstance(node, ast.JoinedStr):
        return "".join(written_text(part) or "x" for part in node.values)
    value = node.value if isinstance(node, ast.Constant) else ""
    return value.decode("latin-1") if isinstance(value, bytes) else value if isinstance(value, str) else ""


def exports(module):
    declared = declared_names(module)
    if declared is None:
        return
    present = importlib.import_module(module.name)
    for name in sorted(name for name in declared if not hasattr(present, name)):
        yield Finding("exports", module.path, 1, f"{name} is in __all__ and nowhere else")


def declared_names(module):
    for node in module.tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return ast.literal_eval(node.value)
    return None


def is_own(node):
    return node.level > 0 or (node.module or "").partition(".")[0] == "agentserver"


IMMUTABLE = {"Siblings", "ForeignModel", "ValueCodec"}
"""Classes with ``__init__`` that are values all the same."""


@cache
def stateful():
    """Every name of a class whose instances change."""
    return {*stateful_classes(), *THREADING}


RULES = (
    sizes,
    opening,
    global_state,
    mutated_containers,
    kept_objects,
    frozen_caches,
    getters,
    catch_alls,
    bare_starts,
    writers,
    markup,
    foreign_json,
    exports,
)


@cache
def findings() -> list[Finding]:
    return [finding for module in modules() for rule in RULES for finding in rule(module)]


# --- tests -----------------------------------------------------------------------------------------------------------


def test_the_house_rules_hold():
    broken = [finding for finding in findings() if (finding.rule, finding.place) not in WAIVERS]
    assert not broken, "\n" + "\n".join(map(str, broken))


def test_no_waiver_is_idle():
    needed = {(finding.rule, finding.place) for finding in findings()}
    assert set(WAIVERS) <= needed, "these waivers are not needed any more"
    assert all(len(reason) > 10 for reason in WAIVERS.values())


def test_each_place_that_may_start_work_by_itself_does():
    for pattern in (each for each, why in BARE_STARTS.items() if why != "is about to go"):
        assert [each.path for each in modules() if fnmatch(each.path, pattern) and list(starts(each))], (
            pattern
        )


def test_catch_alls_stand_in_two_places():
    """One pattern may match several gateways; only one of them all has the loop."""
    for pattern, count in CATCH_ALL.items():
        handlers = [
            module.path
            for module in modules() if fnmatch(module.path, pattern)
            for node in module.of(ast.ExceptHandler) if is_broad(node)
        ]  # fmt: skip
        assert len(handlers) <= count, handlers


def needs(module):
    """The modules of ours that a module names at its top, for types alone too."""
    for node in filter(is_own, module.of(ast.ImportFrom)):
        for one in node.names:
            inner = f"{node.module}.{one.name}"
            yield inner if inner in module_names() else node.module


def test_no_modules_need_each_other():
    try:
        graphlib.TopologicalSorter(
            {one.name: set(needs(one)) - {"agentserver"} for one in modules()}
        ).prepare()
    except graphlib.CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_each_exception_for_json_is_needed():
    for pattern, reason in OWN_JSON.items():
        matching = [module for module in modules() if fnmatch(module.path, pattern)]
        assert any(True for module in matching for _ in json_reads(module)), pattern
        assert len(reason) > 10


@pytest.mark.parametrize(
    "text",
    [
        "from json import loads\n",
        "from pydantic_core import from_json\n",
        "def f(adapter, data): return adapter.validate_json(data)\n",
        "def f(data): return map(Model.model_validate, data)\n",
        "def f(error): return error.errors()[0]\n",
    ],
)
def test_each_way_to_read_foreign_json_is_seen(text):
    module = Module("agentserver/gateways/x.py", text, ast.parse(text))
    assert [finding.rule for finding in foreign_json(module)] == ["foreign json"]


BROKEN = {
    "body": "def f():\n" + "    x = 1\n" * (BODY_LINES + 1),
    "complexity": "def f(a):\n" + "    if a: a = 1\n" * COMPLEXITY,
    "nesting": "def f(a):\n if a:\n  for b in a:\n   with b:\n    while b: pass\n",
    "parameters": "def f(a, b, c, d, e, f, *, g): ...\n",
    "opening": "x = 1\n",
    "global": "def f():\n    global x\n",
    "cache": "@functools.lru_cache(maxsize=1)\ndef f(): ...\n",
    "mutated": "SEEN: set[str] = set()\ndef f(a):\n    SEEN.add(a)\n",
    "kept": "import threading\nLOCK = threading.Lock()\n",
    "frozen cache": "@dataclass(frozen=True)\nclass A:\n    a: dict[str, int]\n    def f(self):\n        self.a['b'] = 1\n",
    "get_x": "def get_pump(): ...\n",
    "catch-all": "try: pass\nexcept (KeyError, Exception): pass\n",
    "print": "print('x')\n",
    "foreign json": "import json\ndef f(a): return json.loads(a)\n",
    "markup": "x = f'<{name}>' + '</a>'\n",
}


@pytest.mark.parametrize("rule", BROKEN)
def test_each_rule_can_fail(rule):
    text = BROKEN[rule]
    module = Module("agentserver/core/x.py", text, ast.parse(text))
    assert rule in {finding.rule for check in RULES for finding in check(module)}


def test_an_apparent_breach_is_not_reported():
    text = '''"""Owns <nothing>."""
LIMITS = {"a": 1}
def f(a, limit):
    """Say <a>."""
    if a: pass
    elif limit < a > 2: pass
    elif a: pass
    elif a: pass
    own = dict(LIMITS)
    own["a"] = 2
    return f"{a} < {limit}"
'''
    module = Module("agentserver/core/x.py", text, ast.parse(text))
    assert [finding for check in RULES for finding in check(module)] == []
