"""A computer with a shell, in the manner of a command tool and the MCP filesystem server.

Owns files and commands run. Refuses to run anything: a few commands are imitated, others answer nothing.
"""

from __future__ import annotations

import re
import shlex
from fnmatch import fnmatchcase
from typing import Any

from benchmarks.outside.services.base import Service, ToolError, tool

HOME = "/home/nadia"


class Shell(Service):
    """The account holder's computer. ``canned`` has the outputs of commands that are not imitated."""

    prefix = "shell"

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, str] = {}
        self.canned: dict[str, str] = {}
        self.history: list[str] = []
        self.sizes: dict[str, int] = {}

    # what cases use

    def write(self, path: str, text: str, size: int | None = None) -> None:
        """A file; ``size`` in bytes where it is not that of the text."""
        self.files[path] = text
        self.sizes[path] = len(text) if size is None else size

    def ran(self, *parts: str) -> bool:
        """True when a command was run in this conversation that holds all of the parts."""
        return any(all(part in command for part in parts) for command in self.history)

    def _run(self, command: str) -> str:
        if command in self.canned:
            return self.canned[command]
        parts = re.split(r"\s*(?:&&|;|\n)\s*", command)
        output = [self.canned[part] if part in self.canned else self._pipeline(part) for part in parts]
        return "\n".join(text for text in output if text)

    def _pipeline(self, command: str) -> str:
        text = ""
        for single in re.split(r"\s*\|\s*(?=(?:[^'\"]|'[^']*'|\"[^\"]*\")*$)", command):
            target = re.search(r"(>>?)\s*(\S+)\s*$", single)
            text = self._single(single[: target.start()] if target else single, text)
            if target:
                before = self.files.get(target[2], "") if target[1] == ">>" else ""
                self.write(target[2], f"{before}{text}\n")
                text = ""
        return text

    def _single(self, command: str, given: str) -> str:
        try:
            name, *words = shlex.split(command) or [""]
        except ValueError:
            return "bash: syntax error"
        plain = [word for word in words if not word.startswith("-")]
        imitated = getattr(self, f"_do_{name}", None)
        return "" if imitated is None else str(imitated(plain, words, given))

    def _named(self, patterns: list[str]) -> list[str]:
        return [path for path in self.files for wanted in patterns if fnmatchcase(path, wanted)]

    def _below(self, patterns: list[str]) -> list[str]:
        return [
            path for path in self.files for wanted in patterns if path.startswith(wanted.rstrip("/") + "/")
        ]

    def _texts(self, patterns: list[str], given: str) -> list[tuple[str, str]]:
        return [(path, self.files[path]) for path in self._named(patterns)] if patterns else [("", given)]

    def _do_ls(self, plain: list[str], words: list[str], given: str) -> str:
        found = [*self._named(plain), *self._below(plain or [HOME])]
        if any("l" in word for word in words if word.startswith("-")):
            return "\n".join(
                f"-rw-r--r-- 1 nadia nadia {self.sizes[path]:>9} Mar  9 17:02 {path}" for path in found
            )
        return "\n".join(found)

    def _do_cat(self, plain: list[str], words: list[str], given: str) -> str:
        missing = [path for path in plain if not self._named([path])]
        texts = [text for _, text in self._texts(plain, given)]
        return "\n".join([*texts, *(f"cat: {path}: No such file or directory" for path in missing)])

    def _do_head(self, plain: list[str], words: list[str], given: str) -> str:
        count = next((int(word.strip("-n")) for word in words if word.strip("-n").isdigit()), 10)
        paths = [path for path in plain if not path.isdigit()]
        return "\n".join("\n".join(text.splitlines()[:count]) for _, text in self._texts(paths, given))

    def _do_tail(self, plain: list[str], words: list[str], given: str) -> str:
        count = next((int(word.strip("-n")) for word in words if word.strip("-n").isdigit()), 10)
        paths = [path for path in plain if not path.isdigit()]
        return "\n".join("\n".join(text.splitlines()[-count:]) for _, text in self._texts(paths, given))

    def _do_grep(self, plain: list[str], words: list[str], given: str) -> str:
        pattern, *paths = plain
        deep = [path for path in paths if path not in self.files]
        texts = self._texts([*paths, *self._below(deep)], given) if paths else [("", given)]
        flags = "".join(word for word in words if word.startswith("-"))
        hits = [
            f"{path}:{line}" if len(texts) > 1 else line
            for path, text in texts
            for line in text.splitlines()
            if re.search(pattern, line, re.IGNORECASE if "i" in flags else 0)
        ]
        return str(len(hits)) if "c" in flags else "\n".join(hits)

    def _do_wc(self, plain: list[str], words: list[str], given: str) -> str:
        return "\n".join(
            f"{len(text.splitlines())} {path}".strip() for path, text in self._texts(plain, given)
        )

    def _do_du(self, plain: list[str], words: list[str], given: str) -> str:
        return "\n".join(f"{self.sizes[path]}\t{path}" for path in self._below(plain or [HOME]))

    def _do_find(self, plain: list[str], words: list[str], given: str) -> str:
        pattern = words[words.index("-name") + 1] if "-name" in words else "*"
        found = self._below(plain[:1] or [HOME])
        return "\n".join(path for path in found if fnmatchcase(path.rpartition("/")[2], pattern))

    def _do_echo(self, plain: list[str], words: list[str], given: str) -> str:
        return " ".join(words)

    def _do_sort(self, plain: list[str], words: list[str], given: str) -> str:
        lines = [line for _, text in self._texts(plain, given) for line in text.splitlines()]
        return "\n".join(sorted(lines, reverse=any("r" in word for word in words)))

    def _do_rm(self, plain: list[str], words: list[str], given: str) -> str:
        for path in [*self._named(plain), *self._below(plain)]:
            self.files.pop(path, None)
        return ""

    def _do_mv(self, plain: list[str], words: list[str], given: str) -> str:
        *paths, target = plain
        for path in self._named(paths):
            place = (
                target
                if len(paths) == 1 and not target.endswith("/")
                else f"{target.rstrip('/')}/{path.rpartition('/')[2]}"
            )
            self.write(place, self.files.pop(path), self.sizes[path])
        return ""

    def _do_cp(self, plain: list[str], words: list[str], given: str) -> str:
        *paths, target = plain
        for path in self._named(paths):
            self.write(target, self.files[path], self.sizes[path])
        return ""

    def _do_pip(self, plain: list[str], words: list[str], given: str) -> str:
        return f"Successfully installed {' '.join(plain[1:])}"

    def _do_npm(self, plain: list[str], words: list[str], given: str) -> str:
        return "added 1 package, and audited 214 packages in 2s" if plain[:1] == ["install"] else ""

    # tools

    @tool
    def execute_command(self, command: str, timeout_ms: int = 30000) -> Any:
        """Executes a bash command in the user's environment and returns its output as one text.

        Args:
            command: the bash command to execute.
            timeout_ms: the time after which it is ended.
        """
        self.history.append(command)
        return self._run(command)

    @tool
    def read_text_file(self, path: str) -> Any:
        """Reads the complete contents of a file as text.

        Args:
            path: the path of the file.
        """
        if path not in self.files:
            raise ToolError(f"ENOENT: no such file or directory, open '{path}'")
        return self.files[path]

    @tool
    def write_file(self, path: str, content: str) -> Any:
        """Creates a new file or completely overwrites an existing file with new content.

        Args:
            path: the path of the file.
            content: the text.
        """
        self.write(path, content)
        return f"Successfully wrote to {path}"

    @tool
    def list_directory(self, path: str) -> Any:
        """Gets a listing of all files in a specified path.

        Args:
            path: the path of the folder.
        """
        return "\n".join(
            f"[FILE] {found.removeprefix(path.rstrip('/') + '/')}" for found in self._below([path])
        )
