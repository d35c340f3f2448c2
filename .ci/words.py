"""Measures how far the project's English and its names are from those of well-known packages, room by room.

A room is a top folder of the package, `(modules)` for its single files, `docs` or `README`. `./run words` prints the
table, `./run words ROOM` each counted place, and `./run words PATH` the same for any folder of Python files.
tests/test_prose.py holds each room to PHRASES and BARE_NAMES.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "agentserver"

IDIOMS = {
    "told": r"told",
    "stands": r"stands|standing",
    "goes on": r"(?:go|goes|going|went) on",
    "no more": r"(?:no|any) more(?![^.]* than)|for ever",
    "beside": r"beside|anew|likewise",
    "whom": r"whom|(?:of|under) which",
    "is none": r"(?-i:(?:is|are|was|were|for|where|if) none)(?! of)|(?-i:None (?:where|for one|for none))",
    "what is": r"what (?:is|was|it|its|they|stands|became|becomes|has|may|no|nobody)\b(?![^.]*\?)",
    "owns what": r"owns (?:what|which|how|where|when|who)|gives what|refuses to (?:know|judge|decide)",
    "the words of": r"the (?:words?|ways?) of|in words|in hand",
    "aside": r"(?:put|puts|set|sets|setting|lay|lays) aside",
    "heard": r"(?:un)?heard|hears",
    "mind": r"minds|mends?|mended|regards?",
    "at rest": r"at rest|to rest|rests|lets? go|(?:is|are) over",
    "those of": r"(?:those|that) of (?:a|an|it|its|one|those|which)|nothing of|(?:of|for) one (?:that|who)",
}
"""Phrases of a translated English. Each is rare in packages that native speakers wrote; see CALIBRATION."""

IDIOM = re.compile("|".join(rf"(?<![\w-])(?:{idiom})(?![\w-])" for idiom in IDIOMS.values()), re.IGNORECASE)

QUOTED = re.compile(r"``[^`]*``|`[^`]*`|:\w+:|https?://\S+")
"""Quotations of code, whose words are not prose."""

PHRASES = 1.0
"""Idioms that a room may have in 1,000 words of docstrings, comments, messages and pages."""
BARE_NAMES = 2.0
"""Percent of names in a room that may be a lone participle, adverb or preposition."""

CALIBRATION = ("starlette", "mcp", "anyio")
"""Installed packages by which the counts were made fair: below 1 phrase in 1,000 words and 2 % of names."""

NOT_PARTICIPLES = frozenset(
    """
    being binding bleed breed bring ceiling ding embed encoding exceed feed heed hundred indeed king
    lightning logging mapping morning need nothing ping proceed red ring routing sacred seed setting
    shed sibling sing sling speed spring sting string succeed swing thing warning weed wing
    """.split()  # noqa: SIM905 - a list of words reads better as text
)
IRREGULAR = frozenset(
    """
    became been begun bought bound broken brought built caught chosen come dealt done drawn driven
    fallen fed felt forgone forgotten found gave given gone grown had heard held hidden kept knew
    known laid led left lent lost made meant met overdue overrun paid ran rewritten risen said sat
    seen sent shaken shown slept sold spent spoken stood struck stuck taken taught thought threw
    thrown told took torn understood underwritten undone unfed unkept unmade unseen unsent unspoken
    unwritten went withdrawn withheld woken won worn written wrote
    """.split()  # noqa: SIM905 - a list of words reads better as text
)
ADVERBS = frozenset(
    """
    aboard about above across after again against ago ahead alike all alone along already also
    always among anew any anywhere apart around aside astray at away back because before behind
    below beneath beside besides between beyond both briefly by down each earlier early either
    elsewhere enough entirely even ever everywhere exactly far forth forward from further hence here
    hereafter how however inside instead into inward just late later less many maybe meanwhile mine
    more most much near never next no nobody none nor nothing now nowhere of off often on once only
    onto onward otherwise out outside outward over past patiently rather repeatedly same
    seldom since so some somebody somehow soon still such theirs then there therefore thereof
    through thus tidily together too toward towards twice under unhurried until up upon via well
    what when whence where whether which whichever while who whole whom whose why with within
    without yet
    """.split()  # noqa: SIM905 - a list of words reads better as text
)

NOT_VERBS = frozenset(
    """
    a all an another any both each either every everything false how if in it its many most neither
    no nobody none nothing of one only several some something such that the their there these they
    this those true two under what when where whether which while who whom whose why with
    """.split()  # noqa: SIM905 - a list of words reads better as text
)
"""First words of a function's docstring after which no verb and object follow."""
NOT_NOUNS = NOT_VERBS - frozenset(
    """
    a all an another any both each either every false no one several some the these this true two
    """.split()  # noqa: SIM905 - a list of words reads better as text
)

WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
PHRASE = re.compile(r"\S+ \S+ \S+ \S+")
COMMENTS = re.compile(r"(?:^[ \t]*#(?!!|.*noqa|.*type:).*\n)+", re.MULTILINE)
LONGEST_CLAUSE = 24
"""Words before the first comma or full stop of a docstring. The house style asks for half as many."""


class Place(NamedTuple):
    """A counted place: the kind of finding, `file:line`, and the text."""

    kind: str
    where: str
    text: str


@dataclass(slots=True)
class Count:
    """The figures of one room.

    Args:
        words: words in docstrings, in comments, and in string constants of four words and more.
        phrases: the idioms among them, by the same three sources.
        names: functions and classes; `bare` of them are a lone participle, adverb or preposition.
        openings: docstrings of functions and classes; `odd` of them are not "Verb object." or "Noun that ...".
    """

    words: Counter[str] = field(default_factory=Counter)
    phrases: Counter[str] = field(default_factory=Counter)
    names: int = 0
    bare: int = 0
    openings: int = 0
    odd: int = 0
    places: list[Place] = field(default_factory=list)

    def rate(self, *sources: str) -> float:
        """Give the idioms in 1,000 words of these sources, or of all of them."""
        chosen = sources or tuple(self.words)
        words = sum(self.words[source] for source in chosen)
        return 1000 * sum(self.phrases[source] for source in chosen) / words if words else 0.0

    @property
    def bare_names(self) -> float:
        """Percent of names that are a lone participle, adverb or preposition."""
        return 100 * self.bare / self.names if self.names else 0.0

    @property
    def odd_openings(self) -> float:
        """Percent of first docstring lines that are not "Verb object." or "Noun that ..."."""
        return 100 * self.odd / self.openings if self.openings else 0.0

    def add_text(self, source: str, text: str, where: str) -> None:
        """Count the words and idioms of one text."""
        prose = " ".join(QUOTED.sub(" code ", text).split())
        self.words[source] += len(WORD.findall(prose))
        for match in IDIOM.finditer(prose):
            self.phrases[source] += 1
            excerpt = prose[max(match.start() - 30, 0) : match.end() + 30]
            self.places.append(Place(source, where, f"[{match.group()}] … {excerpt} …"))

    def add_name(self, name: str, where: str) -> None:
        """Count one name of a function or class."""
        self.names += 1
        if is_bare(name):
            self.bare += 1
            self.places.append(Place("name", where, name))

    def add_opening(self, node: ast.AST, text: str, where: str) -> None:
        """Count the first line of a docstring of a function or class."""
        self.openings += 1
        if is_odd_opening(node, text):
            self.odd += 1
            self.places.append(Place("opening", where, text.strip().splitlines()[0]))


NAMES_OF_FLOWS = frozenset({"Denied", "Refused", "now", "once"})
"""Names of ``agentserver.flow``, which read as words of a sentence: ``except Refused``, ``await once(...)``."""


def is_bare(name: str) -> bool:
    """Tell whether a name is a lone participle, adverb, preposition or question word."""
    words = re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)
    if len(words) != 1 or (name.startswith("__") and name.endswith("__")):
        return False
    word = words[0].lower()
    if word in NOT_PARTICIPLES or name in NAMES_OF_FLOWS:
        return False
    return word in IRREGULAR or word in ADVERBS or re.fullmatch(r"\w{2,}(?:ed|ing)", word) is not None


def is_odd_opening(node: ast.AST, text: str) -> bool:
    """Tell whether a docstring opens with neither a verb (functions) nor a noun (classes, properties), or runs on."""
    line = " ".join(text.strip().split("\n\n")[0].split())
    words = WORD.findall(QUOTED.sub("code", line))
    first = words[0].lower() if words else ""
    noun = isinstance(node, ast.ClassDef) or is_property(node)
    if first in (NOT_NOUNS if noun else NOT_VERBS):
        return True
    clause = re.split(r"[,.;:](?:\s|$)| \(| - | – ", QUOTED.sub("code", line), maxsplit=1)[0]
    return len(clause.split()) > LONGEST_CLAUSE


def is_property(node: ast.AST) -> bool:
    """Tell whether a function is a property, which is named and described as a noun."""
    decorators = getattr(node, "decorator_list", [])
    return any("property" in ast.unparse(each) for each in decorators)


def measure_module(path: Path, count: Count) -> None:
    """Add the figures of one Python file to a count."""
    source = path.read_text("utf-8")
    tree = ast.parse(source)
    where = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    documented: set[int] = set()
    for node in ast.walk(tree):
        for docstring in _docstrings(node):
            documented.add(id(docstring))
            count.add_text("docstrings", str(docstring.value), f"{where}:{docstring.lineno}")
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if not is_property(node):
                count.add_name(node.name, f"{where}:{node.lineno}")
            if text := ast.get_docstring(node):
                count.add_opening(node, text, f"{where}:{node.lineno}")
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and PHRASE.search(node.value):
            if id(node) in documented:
                continue
            count.add_text("messages", node.value, f"{where}:{node.lineno}")
    for line, text in _comments(source):
        count.add_text("comments", text, f"{where}:{line}")


def _docstrings(node: ast.AST) -> Iterator[ast.Constant]:
    """Find the strings that document a module, a class, a function, or the value above them."""
    if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return
    for first, second in zip([None, *node.body], node.body, strict=False):
        text = second.value if isinstance(second, ast.Expr) else None
        documents = first is None or isinstance(first, ast.Assign | ast.AnnAssign)
        if documents and isinstance(text, ast.Constant) and isinstance(text.value, str):
            yield text


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """Give each block of comment lines as one text, with the number of its first line."""
    for match in COMMENTS.finditer(source):
        yield (
            source.count("\n", 0, match.start()) + 1,
            re.sub(r"^\s*#:? ?", "", match.group(), flags=re.MULTILINE),
        )


def measure_page(path: Path, count: Count) -> None:
    """Add the figures of one Markdown file to a count; blocks of code are left out."""
    text = re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    where = path.relative_to(ROOT)
    for match in re.finditer(r"(?:^.*\S.*\n?)+", text, re.MULTILINE):
        line = text.count("\n", 0, match.start()) + 1
        for cell in re.split(r" \| |^\| ?|^#+ |^- ", match.group(), flags=re.MULTILINE):
            count.add_text("pages", cell, f"{where}:~{line}")


def measure(files: Iterable[Path]) -> Count:
    """Measure Python files and Markdown pages as one room."""
    count = Count()
    for path in sorted(files):
        if path.suffix == ".md":
            measure_page(path, count)
        else:
            measure_module(path, count)
    return count


def rooms() -> dict[str, list[Path]]:
    """List the rooms of the project and their files. Decisions and the changelog quote old words and are left out."""
    found = {
        folder.name: list(folder.rglob("*.py"))
        for folder in sorted(PACKAGE.iterdir())
        if folder.is_dir() and any(folder.rglob("*.py"))
    }
    found["(modules)"] = list(PACKAGE.glob("*.py"))
    docs = (ROOT / "docs").rglob("*.md")
    found["docs"] = [*(page for page in docs if "decisions" not in page.parts), ROOT / "ARCHITECTURE.md"]
    found["README"] = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    return found


def row(name: str, count: Count) -> str:
    """Format the figures of one room as a line of the table."""
    columns = "".join(f"{count.rate(source):10.1f}" for source in ("docstrings", "comments", "messages"))
    words, bare = sum(count.words.values()), f"{count.bare}/{count.names}"
    shares = f"{count.bare_names:6.1f} %{count.odd_openings:6.0f} %"
    return f"{name:<14}{words:8}{count.rate():8.1f}{columns}{bare:>12}{shares}"


HEADER = (
    f"{'room':<14}{'words':>8}{'phrases':>8}{'docstr.':>10}{'comments':>10}{'messages':>10}"
    f"{'bare names':>12}{'':>8}{'openings':>8}"
)


def main(argv: Sequence[str]) -> int:
    """Print the table of rooms, or the counted places of one room or folder."""
    known = rooms()
    if argv:
        for name in argv:
            files = known.get(name) or [each for each in Path(name).rglob("*.py") if each.is_file()]
            if not files:
                print(f"words: no room or folder {name!r}; rooms: {', '.join(known)}", file=sys.stderr)
                return 64
            count = measure(files)
            for place in count.places:
                print(f"{place.where}: {place.kind}: {place.text}")
            print(HEADER, row(Path(name).name, count), sep="\n")
        return 0
    print(HEADER)
    for name, files in known.items():
        print(row(name, measure(files)))
    print(row("package", measure(path for files in known.values() for path in files if path.suffix == ".py")))
    for name in CALIBRATION:
        found = list(Path(sys.prefix).glob(f"lib/python3.*/site-packages/{name}"))
        print(row(name, measure(path for folder in found for path in folder.rglob("*.py"))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
