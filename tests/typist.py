"""A stranger who reads a page from top to bottom and follows it in one terminal.

- A block `sh` is typed line by line, and each command must succeed.
- A block `console` is a session: a line after `$ ` is typed at the shell, one after `> ` at the prompt of the program that
  runs, and the lines between are the expected output.
- Any other block is a file when the sentence above it ends with a colon and names one file in backticks: it is written
  there, or after "Add to" put at the file's end. A block that names no file is a mistake of the page.
- `<!-- shown: next "reason" -->` above a block: it is only read.

Output is compared with the page line by line, blank ones left out. Other than the page says may be: ids (hex
digits), times, durations and the width of spaces. `…` stands for any text in a line, and alone for any lines. An id that
was shown is replaced by the real one where it is typed later.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pexpect

from tests.installed import PATIENCE

PROMPT = "typed$ "
BLOCK = re.compile(r"(?ms)^(?P<above>.*?)^```(?P<language>\w*)\n(?P<text>.*?)^```$")
FILE = re.compile(r"`([\w./-]+\.\w+)`")
SHOWN = re.compile(r'<!-- shown: next "[^"]+" -->\s*\Z')
COMMENT = re.compile(r"(?s)<!--.*?-->")
ID = r"\b(?=[0-9a-f-]*\d)[0-9a-f]{8}(?:-[0-9a-f]{4}){0,3}(?:-[0-9a-f]{12})?\b"
VARIES = re.compile(
    rf"(?P<id>{ID})|(?P<digest>\b[0-9a-f]{{64}}\b)|(?P<day>\d{{4}}-\d\d-\d\d)|(?P<time>\d\d:\d\d:\d\d)"
    r"|(?P<lasted>\d+(?:\.\d+)?(?=(?: ms|s)\b))|(?P<spaces> +)|(?P<any>…)"
)
FORMS = {"id": ID, "digest": "[0-9a-f]{64}", "day": r"\d{4}-\d\d-\d\d", "time": r"\d\d:\d\d:\d\d",
         "lasted": r"\d+(?:\.\d+)?", "spaces": " +", "any": ".*"}  # fmt: skip


class Step(NamedTuple):
    """One thing that a page says to do: `type`, `write`, `add` or `session`, where, and the lines."""

    kind: str
    where: str
    text: str


class PageError(AssertionError):
    """A page that cannot be followed, or shows what does not appear."""


def steps(page):
    """What a page says to do, in order. Raises PageError for a block that says of no file that it is one."""
    for block in BLOCK.finditer(page):
        if SHOWN.search(block["above"]):
            continue
        if block["language"] in {"sh", "console"}:
            kind = "type" if block["language"] == "sh" else "session"
            yield Step(kind, "", block["text"])
            continue
        sentence = re.split(r"(?<=[.:])\s+|\n\n", COMMENT.sub("", block["above"]).strip())[-1]
        named = FILE.findall(sentence)
        if len(named) != 1 or not sentence.endswith(":"):
            raise PageError(f"a block of {block['language']} after {sentence!r} names no file, or several")
        yield Step("add" if sentence.startswith("Add to") else "write", named[0], block["text"])


class Typist:
    """The stranger, in a terminal that begins in a folder.

    Args:
        home: the folder used as the checkout, and as the home.
        stand_ins: replacements for texts of the page.
        outside: the environment.
    """

    def __init__(self, home: Path, stand_ins: dict[str, str], outside: dict[str, str]) -> None:
        self.home, self.stand_ins, self.ids, self.typed = home, stand_ins, {}, []
        options = {"encoding": "utf-8", "dimensions": (200, 400), "timeout": PATIENCE}
        fixed = {
            "HOME": str(home),
            "TERM": "dumb",
            "LANG": "C.UTF-8",
            "PS1": f"[$?]{PROMPT}",
            "VIRTUAL_ENV_DISABLE_PROMPT": "1",
        }
        self.shell = pexpect.spawn(
            "/bin/bash", ["--noprofile", "--norc", "-i"], env={**outside, **fixed}, cwd=str(home), **options
        )
        self.shell.delaybeforesend = None
        self.shell.expect_exact(PROMPT)

    def close(self) -> None:
        """Leave, with all that still runs."""
        self.shell.close(force=True)

    def follow(self, page: str, folder: str = ".") -> None:
        """Do all that a page says, beginning in a folder below that of the checkout."""
        self.line(f"cd {self.home / folder}")
        for step in steps(page):
            if step.kind == "type":
                for line in step.text.replace("\\\n", "").splitlines():
                    self.line(line)
            elif step.kind == "session":
                self.session(step.text)
            else:
                self.file(step)

    def file(self, step: Step) -> None:
        """Write a file, or add to one, in the folder where the shell is."""
        path = self.folder() / step.where
        path.parent.mkdir(parents=True, exist_ok=True)
        if step.kind == "add" and not path.exists():
            raise PageError(f"{step.where} is added to, and is not there")
        with path.open("a" if step.kind == "add" else "w", encoding="utf-8") as file:
            file.write(step.text)

    def folder(self) -> Path:
        """The folder where the shell is."""
        return Path(f"/proc/{self.shell.pid}/cwd").readlink()

    def line(self, line: str) -> str:
        """Type a command that succeeds; return its output."""
        said, status = self.shown(line, rf"\[(\d+)\]{re.escape(PROMPT)}")
        if status != "0":
            raise PageError(f"$ {line}\n{said}\nended with {status}")
        return said

    def shown(self, line: str, prompt: str) -> tuple[str, str | None]:
        """Type a line; return the output until a prompt, and the status of the command where the prompt has it."""
        for text, instead in self.stand_ins.items():
            line = line.replace(text, instead)
        line = re.sub(ID, lambda found: self.ids.get(found[0], found[0]), line)
        self.typed.append(line)
        self.shell.send(f"{line}\r")
        self.shell.expect(re.escape(line) + r" *\r\n")
        self.shell.expect(prompt)
        status = self.shell.match[1] if self.shell.match.re.groups else None
        return self.shell.before.replace("\r\n", "\n"), status

    def session(self, text: str) -> None:
        """Type the lines of a session and compare the output with the page after each."""
        parts = re.split(r"(?m)^([$>]) (.*)\n", text)
        if parts[0].strip():
            raise PageError(f"a session begins with what nobody typed: {parts[0]!r}")
        shell, program = rf"\[(\d+)\]{re.escape(PROMPT)}", r"(?:^|\n)[\w-]+> $"
        for place in range(1, len(parts), 3):
            mark, line, shown = parts[place : place + 3]
            inside = parts[place + 3] == ">" if place + 3 < len(parts) else False
            if mark == ">" or inside:
                said, status = self.shown(line, rf"{shell}|{program}")
            else:
                said, status = self.shown(line, shell)
            if inside == (status is not None):
                raise PageError(f"after {line!r} the next prompt is another than the page has:\n{said}")
            if status not in {None, "0"}:
                raise PageError(f"{line}\n{said}\nended with {status}")
            self.compare(line, shown, said)

    def compare(self, line: str, shown: str, said: str) -> None:
        """Compare the output with the page, and record the real id for each id of the page."""
        found = re.fullmatch(pattern(shown), "".join(f"{each}\n" for each in lines(said)))
        if found is None:
            raise PageError(f"{line}\nshown by the page:\n{shown}\nwhat appeared:\n{said}")
        real = [found[group] for group in sorted(found.re.groupindex.values())]
        for one, other in zip(re.findall(ID, shown), real, strict=True):
            for length in {8, len(one)}:
                self.ids[one[:length]] = other[:length]


def lines(text):
    """The lines that are not blank, without what ends them."""
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def pattern(shown):
    """Build the pattern of permitted output."""
    numbers = iter(range(1000))

    def vary_id(found):
        if found.lastgroup == "id":
            return f"(?P<id{next(numbers)}>{ID})"
        return FORMS[found.lastgroup]

    def one(line):
        if line.strip() == "…":
            return r"(?:.*\n)*?"
        text, last = "", 0
        for found in VARIES.finditer(line):
            text += re.escape(line[last : found.start()]) + vary_id(found)
            last = found.end()
        return text + re.escape(line[last:]) + r"\n"

    return "".join(map(one, lines(shown)))
