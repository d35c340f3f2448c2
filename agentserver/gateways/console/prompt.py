"""The console's prompt with history and completion. The only module that imports prompt_toolkit."""

from __future__ import annotations

import contextlib
import os
import sys
import termios
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TextIO

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, get_common_complete_suffix
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory, ThreadedHistory
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.patch_stdout import patch_stdout

from agentserver.characters.printing import escape_unseen
from agentserver.gateways.console.lines import ControlKey, candidates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from prompt_toolkit.document import Document
    from prompt_toolkit.input import Input
    from prompt_toolkit.key_binding import KeyPressEvent
    from prompt_toolkit.key_binding.key_processor import KeyPress
    from prompt_toolkit.output import Output

    from agentserver.gateways.console.lines import Ids, Takers, Typed


class ListenerCompleter(Completer):
    """Completer that offers the ``candidates``."""

    def __init__(self, takers: Takers, ids: Callable[[], Ids]) -> None:
        self._takers = takers
        self._ids = ids

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Return the completions at the cursor."""
        del complete_event
        for each in candidates(document.text_before_cursor, self._takers, self._ids()):
            yield Completion(
                escape_unseen(each.text), start_position=each.start, display_meta=escape_unseen(each.meaning)
            )


class PrivateHistory(FileHistory):
    """History in a file of mode 0600. A line that begins with a space or holds a known secret is not written.

    Secrets that the organism does not know of are written like any other text.
    """

    def __init__(self, path: Path, redact: Callable[[str], str]) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        path.chmod(0o600)
        super().__init__(path)
        self._redact = redact
        # One thread, so that the event loop does not wait for the disk and lines keep their order.
        self._writer = ThreadPoolExecutor(max_workers=1)

    def store_string(self, string: str) -> None:
        """Write a line, unless it is a private one."""
        if not string.startswith(" ") and self._redact(string) == string:
            self._writer.submit(super().store_string, string)


def open_history(path: Path | None, redact: Callable[[str], str]) -> tuple[History, str]:
    """Open the history in a file, or in memory, with the reason, if the file cannot be used."""
    if path is None:
        return InMemoryHistory(), ""
    try:
        return ThreadedHistory(PrivateHistory(path, redact)), ""
    except OSError as error:
        return InMemoryHistory(), f"no history: {path}: {error.strerror}"


class SignallingInput(Vt100Input):
    """A terminal on which Ctrl-C stays a signal while a line is typed.

    As a key it would wait for the event loop, and so could not end a process whose loop a handler holds. The terminal
    drops what it has of the line, so all that is read afterwards follows Ctrl-C: it is held until the text is cleared.

    Args:
        terminal: standard input.
        hold: checks whether Ctrl-C has not been acted on yet.
    """

    def __init__(self, terminal: TextIO, hold: Callable[[], bool]) -> None:
        super().__init__(terminal)
        self._hold = hold

    def read_keys(self) -> list[KeyPress]:
        """Return the keys typed so far, none while they are held."""
        return [] if self._hold() else super().read_keys()

    def raw_mode(self) -> AbstractContextManager[None]:
        """Return the mode for typing a line."""
        return self._raw()

    @contextlib.contextmanager
    def _raw(self) -> Iterator[None]:
        with super().raw_mode():
            with contextlib.suppress(termios.error):
                mode = termios.tcgetattr(self.fileno())
                mode[_LFLAG] |= termios.ISIG
                for key in (termios.VQUIT, termios.VSUSP):  # those stay keys
                    mode[_CC][key] = b"\0"
                termios.tcsetattr(self.fileno(), termios.TCSANOW, mode)
            yield


_LFLAG, _CC = 3, 6
"""Places in what ``tcgetattr`` gives."""


def _terminal(hold: Callable[[], bool]) -> Input | None:
    """Open standard input, when it is a terminal; else what prompt_toolkit makes of it."""
    return SignallingInput(sys.stdin, hold) if sys.stdin.isatty() else None


def _keys(completer: Completer) -> KeyBindings:
    """Bind Tab as shells do, also in the menu: it writes what all completions have in common, then chooses."""
    keys = KeyBindings()

    @keys.add("tab")
    def complete(event: KeyPressEvent) -> None:
        buffer, state = event.current_buffer, event.current_buffer.complete_state
        found = list(completer.get_completions(buffer.document, CompleteEvent(completion_requested=True)))
        common = get_common_complete_suffix(buffer.document, found)
        if state is not None and state.current_completion is not None:
            buffer.complete_next()
        elif len(found) == 1:
            buffer.apply_completion(found[0])
        elif common:
            buffer.insert_text(common)
        elif state is not None:
            buffer.complete_next()
        else:
            buffer.start_completion()

    return keys


class PromptLines:
    """Lines typed at a prompt_toolkit prompt, above which output appears meanwhile."""

    concurrent = True

    def __init__(
        self,
        completer: Completer,
        past: History,
        *,
        hold: Callable[[], bool] = lambda: False,
        source: Input | None = None,
        sink: Output | None = None,
    ) -> None:
        self._session: PromptSession[str] = PromptSession(
            history=past,
            completer=completer,
            complete_while_typing=Condition(self._completes),
            key_bindings=_keys(completer),
            input=source or _terminal(hold),
            output=sink,
        )
        self._prompt = ""

    async def next(self, prompt: str) -> Typed:
        """Return the next line."""
        self._prompt = prompt
        try:
            return await self._session.prompt_async(lambda: self._prompt, handle_sigint=False)
        except KeyboardInterrupt:
            return ControlKey.INTERRUPT
        except EOFError:
            return ControlKey.END

    def _completes(self) -> bool:
        """Tell whether a line can have completions: the prompt reserves space for them."""
        return self._session.default_buffer.text.startswith(("@", "/"))

    def clear(self, prompt: str) -> bool:
        """Clear the typed text."""
        typed = bool(self._session.default_buffer.text)
        self._session.default_buffer.reset()
        self._prompt = prompt
        self._session.app.invalidate()
        return typed

    def above(self) -> AbstractContextManager[None]:
        """Print above the prompt while the context lasts."""
        return patch_stdout(raw=True)
