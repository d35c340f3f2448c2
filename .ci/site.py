"""MkDocs hook that adds pages and files from outside docs/ to the site, the drawings of states, and llms.txt.

Fetches nothing: everything on a page comes from this checkout.
"""

from __future__ import annotations

import base64
import posixpath
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

sys.path[:0] = [str(Path(__file__).resolve().parent)]

from svg import read_flowchart, to_svg  # noqa: E402 - beside this file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.nav import Navigation
    from mkdocs.structure.pages import Page

    from agentserver.graph import Graph

ROOT: Final = Path(__file__).resolve().parent.parent
DOCS: Final = ROOT / "docs"
HOME: Final = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
"""Pages from beside docs/, by their file, as the site calls them."""

SOURCE: Final = "source/"
"""Where the site has other files that pages lead to, as they are."""

DECISIONS: Final = "decisions/index.md"
LINK: Final = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]*)((?:#[^)\s]*)?)(?=\))")
FENCED: Final = re.compile(r"(?ms)^(`{3,}).*?^\1$")
STATES: Final = re.compile(r"(?ms)^```mermaid\nstateDiagram-v2\n(.*?)^```$")
FLOWS: Final = re.compile(r"(?ms)^```mermaid\n(flowchart .*?)^```$")


# --- files ------------------------------------------------------------------------------------------------------------


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from outside docs/, the list of decisions, and each linked file."""
    pages = {path: path.relative_to(DOCS).as_posix() for path in sorted(DOCS.rglob("*.md"))}
    pages |= {ROOT / path: name for path, name in HOME.items()}
    wanted = {there for page in pages for there in _outside(page)}
    for there in sorted(wanted):
        name = _place(there)
        if there.is_dir():
            listing = "\n".join(
                sorted(one.name for one in there.iterdir() if not one.name.startswith((".", "_")))
            )
            files.append(File.generated(config, name, content=listing))
        elif there not in pages:
            files.append(File.generated(config, name, abs_src_path=str(there)))
    for path, name in HOME.items():
        files.append(File.generated(config, name, content=_read_moved(ROOT / path)))
    files.append(File.generated(config, DECISIONS, content=_decisions()))
    return files


def _outside(page: Path) -> Iterator[Path]:
    """List the linked files and folders outside docs/ that are no pages."""
    for target, _ in LINK.findall(FENCED.sub("", page.read_text("utf-8"))):
        there = (page.parent / target).resolve()
        home = there.relative_to(ROOT).as_posix() in HOME
        if target and there.exists() and not there.is_relative_to(DOCS) and not home:
            yield there


def _place(there: Path) -> str:
    """The name of a file or folder of this checkout, as the site has it."""
    if there == DOCS / "decisions":
        return DECISIONS
    if there.is_relative_to(DOCS):
        return there.relative_to(DOCS).as_posix()
    name = there.relative_to(ROOT).as_posix()
    if name in HOME:
        return HOME[name]
    # A browser shows text; of a README it would see Markdown, and a folder has a list.
    return f"{SOURCE}{name}{'/index' if there.is_dir() else ''}.txt"


def _read_moved(path: Path) -> str:
    """Return the text of a page from outside docs/, with links relative to docs/."""
    return relink(path.read_text("utf-8"), path, HOME[path.relative_to(ROOT).as_posix()])


def relink(text: str, path: Path, name: str) -> str:
    """The text with each link to a file of this checkout leading to where the site has it."""

    def link(found: re.Match[str]) -> str:
        if not found[1]:
            return found[0]
        there = (path.parent / found[1]).resolve()
        if not there.exists():
            return found[0]  # MkDocs tells of it
        return posixpath.relpath(_place(there), posixpath.dirname(name) or ".") + found[2]

    parts, last = [], 0
    for fence in FENCED.finditer(text):
        parts += [LINK.sub(link, text[last : fence.start()]), fence[0]]
        last = fence.end()
    return "".join([*parts, LINK.sub(link, text[last:])])


def _decisions() -> str:
    """A list of the decisions, by their titles."""
    rows = [
        f"- [{path.read_text('utf-8').partition(chr(10))[0].lstrip('# ')}]({path.name})"
        for path in sorted((DOCS / "decisions").glob("*.md"))
    ]
    return "\n".join(
        ["# Decisions", "", "Each tells the context, what was chosen, and what lost and why.", "", *rows]
    )


# --- pages ------------------------------------------------------------------------------------------------------------


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Give a page its links, its drawings and the names of the API."""
    del config, files
    path = page.file.src_uri
    made = path == DECISIONS or path in HOME.values()
    text = markdown if made else relink(markdown, DOCS / path, path)
    text = STATES.sub(lambda found: drawn(found[1]), text)
    text = FLOWS.sub(lambda found: image(read_flowchart(found[1])), text)
    for mark, write in MADE.items():
        text = text.replace(mark, write()) if mark in text else text
    return text


def drawn(states: str) -> str:
    """States and moves as a drawing of agentserver's own, in place of a script that a browser would have to fetch."""
    from agentserver.core.blueprint import Listener
    from agentserver.graph import Graph

    moves = [(one.replace("[*]", "new"), other.replace("[*]", "gone"), how) for one, other, how in re.findall(
        r"^ *(\S+) --> (\S+?)(?:: (.*))?$", states, re.MULTILINE)]  # fmt: skip
    names = dict.fromkeys(name for one, other, _ in moves for name in (one, other))
    peers = {name: frozenset(other for one, other, _ in moves if one == name != other) for name in names}
    boxes = tuple(Listener(name, (), "", peers=peers[name]) for name in names)
    rows = [f"| {one} | {how or 'end'} | {other} |" for one, other, how in moves]
    picture = image(Graph("states", boxes, "which stage may follow which"))
    return "\n".join(
        [
            picture,
            "",
            "| from | by | to |",
            "|---|---|---|",
            *rows,
        ]
    )


def image(graph: Graph) -> str:
    """Embed a graph as an image, since the styles of an inline SVG would apply to the whole page."""
    data = base64.b64encode(to_svg(graph).encode()).decode()
    return f"![{graph.about.capitalize()}](data:image/svg+xml;base64,{data})"


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> Navigation:
    """Keep the navigation for llms.txt."""
    del files
    config.extra["pages"] = nav
    return nav


# --- llms.txt ---------------------------------------------------------------------------------------------------------


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Keep the Markdown of each page, for programs that read it."""
    del files
    config.extra.setdefault("texts", {})[page.file.src_uri] = page.markdown or ""
    return html


def on_post_build(config: MkDocsConfig) -> None:
    """Write llms.txt: each page of the four parts, with its first sentence, as Markdown next to its HTML."""
    site, texts = Path(config.site_dir), config.extra["texts"]
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", ""]
    for part in config.extra["pages"].items:
        pages = [part] if part.is_page else list(_pages(part))
        if part.is_section:
            lines += [f"## {part.title}", ""]
        for page in pages:
            uri = page.file.src_uri
            (site / uri).parent.mkdir(parents=True, exist_ok=True)
            (site / uri).write_text(texts[uri], "utf-8")
            lines.append(f"- [{page.title}]({uri}): {first_sentence(texts[uri])}")
        lines.append("")
    (site / "llms.txt").write_text("\n".join(lines), "utf-8")
    fetched = [
        f"{page.relative_to(site)}: {found}"
        for page in site.rglob("*.html")
        for found in list_foreign_urls(page.read_text("utf-8"))
    ]
    if fetched:
        raise PluginError("pages fetch from elsewhere:\n" + "\n".join(fetched))


def list_foreign_urls(html: str) -> list[str]:
    """List the foreign URLs that a browser would fetch to show a page, other than links."""
    return re.findall(
        r"""<(?:script|img|iframe|source|link)\b[^>]*?\b(?:src|href)=["']?((?:https?:)?//[^"' >]*)""", html
    )


def _pages(section: Any) -> Iterator[Page]:
    for child in section.children:
        if child.is_page:
            yield child
        elif child.is_section:
            yield from _pages(child)


def first_sentence(text: str) -> str:
    """The first sentence of the first paragraph of a page."""
    paragraphs = (" ".join(part.split()) for part in FENCED.sub("", text).split("\n\n"))
    plain = next((part for part in paragraphs if part and part[0] not in "#<|!-:"), "")
    return re.split(r"(?<=[.:])\s", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", plain))[0]


# --- Python API -------------------------------------------------------------------------------------------------------


def api() -> str:
    """The public modules with their names, from the list of them."""
    rows = re.findall(
        r"^\| `(agentserver(?:\.\w+)*)` \| (`.*`) \|$",
        (DOCS / "reference.md").read_text("utf-8"),
        re.MULTILINE,
    )
    lines: list[str] = []
    for module, names in rows:
        lines += [f"## {module}", ""]
        for name in re.findall(r"`(\w+)`", names):
            lines += [f"::: {module}.{name}", ""]
    return "\n".join(lines)


MADE: Final = {
    "<!-- api: made from docs/reference.md -->": api,
}
"""What stands in place of a mark on a page."""
