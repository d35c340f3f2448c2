"""``agentserver replay``: decides recorded conversations again, by the same or other rules."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from agentserver.characters.printing import escape_unseen, format_amount
from agentserver.cli import project, reading
from agentserver.cli.process import ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from agentserver.config import Organism
    from agentserver.config.yaml.secrets import Secrets
    from agentserver.core.encoding.history import RecordedConversation
    from agentserver.core.guard import Rules
    from agentserver.history.policy_diff import Difference
    from agentserver.ports import EngineReader

HYPOTHETICAL = "  from here on: verdicts of these rules on recorded messages that they would have prevented"


@click.command("replay", short_help="Decide recorded conversations again and compare.")
@click.argument("conversations", nargs=-1, metavar="[CONVERSATION]...")
@reading.add_journal_option
@click.option(
    "--against", type=project.FILE, metavar="OTHER", help="Compare with the rules of this organism."
)
@click.option(
    "--save",
    type=project.FILE,
    metavar="FILE",
    help="Write the one CONVERSATION to FILE (.json), and next to it a pytest test that decides it again.",
)
def command(
    storage: reading.Storage,
    conversations: tuple[str, ...],
    **options: Any,
) -> None:
    """Decide CONVERSATIONs, or every conversation of the journal, again under the current organism.

    No handler runs: their answers are in the journal. Prints the first step of each conversation that is
    decided differently or was altered; exit code 1 if there is one.

    With --against: lists the recorded messages that other rules would have blocked, asked about or let through;
    exit code 1 if there are any.
    """
    _check_options(conversations, options)
    loaded = project.load(storage.organism)
    rules = project.build_server(loaded).rules
    other = _load_other(loaded, options)
    say = _make_redacting_printer(loaded, other)
    report: _Comparison | _WhatIf = _Comparison(say, rules)
    if other is not None:
        report = _WhatIf(say, rules, project.build_server(other).rules)
    with storage.open() as reader:
        for recorded in _read_recorded(reader, conversations):
            altered = reader.find_altered(recorded)
            report.take(recorded, altered)
            if options["save"] and altered is not None:
                project.refuse("it was altered; nothing is saved")
            if options["save"]:
                _save(
                    recorded,
                    options["save"],
                    (project.find_organism_or_raise(storage.organism), loaded.secrets),
                )
    say(report.format_total())
    project.exit_command(ExitCode.FOUND if report.different else 0)


def _check_options(conversations: Sequence[str], options: dict[str, Any]) -> None:
    if sum(options[name] is not None for name in ("against", "save")) > 1:
        raise click.UsageError("--against and --save exclude each other")
    if options["save"] and len(conversations) != 1:
        raise click.UsageError("--save takes exactly one CONVERSATION")


def _make_redacting_printer(*organisms: Organism | None) -> Callable[[str], None]:
    """Make a function that prints a line without the organisms' secrets and with control characters escaped."""

    def say(text: str) -> None:
        for organism in organisms:
            text = text if organism is None else organism.secrets.redact(text)
        click.echo(escape_unseen(text))

    return say


def _load_other(loaded: Organism, options: dict[str, Any]) -> Organism | None:
    """Load the organism to compare with, if any."""
    from agentserver import config

    if options["against"] is None:
        return None
    # Both may have modules of the same names. The first organism keeps its own in use.
    config.forget(loaded)
    return project.load(options["against"])


def _read_recorded(reader: EngineReader, prefixes: Sequence[str]) -> Iterator[RecordedConversation]:
    keys = [reading.find_conversation(reader, prefix) for prefix in prefixes]
    if not prefixes:
        keys = [one.id for one in reader.conversations()]
    return (reading.read_recorded_conversation(reader, key) for key in keys)


class _Comparison:
    """Report of conversations that are decided differently."""

    def __init__(self, say: Callable[[str], None], rules: Rules) -> None:
        self._say = say
        self._rules = rules
        self._total = self._steps = 0
        self.different = 0

    def take(self, recorded: RecordedConversation, altered: int | None) -> None:
        """Decide one conversation again; ``altered`` is its first step that was altered, if any."""
        from agentserver.history.replay import replay

        self._total, self._steps = self._total + 1, self._steps + len(recorded.steps)
        found = _describe_alteration(altered) or replay(recorded, self._rules)
        if found is not None:
            self.different += 1
            self._say(f"{recorded.beginning.id}: {found}")

    def format_total(self) -> str:
        """Format the last line."""
        total, steps = format_amount(self._total, "conversation"), format_amount(self._steps, "step")
        return f"{total}, {steps}; {self.different} differ"


def _describe_alteration(version: int | None) -> str | None:
    return None if version is None else f"step {version} was altered"


class _WhatIf:
    """Report of messages that other rules would treat differently."""

    def __init__(self, say: Callable[[str], None], rules: Rules, other: Rules) -> None:
        self._say = say
        self._rules = rules
        self._other = other
        self._conversations = self._messages = self._unknown = 0
        self._changes: Counter[str] = Counter()

    @property
    def different(self) -> int:
        """Number of messages treated differently, plus conversations that could not be compared."""
        return self._changes.total() + self._unknown

    def take(self, recorded: RecordedConversation, altered: int | None) -> None:
        """Compare every message of one conversation; ``altered`` as in ``_Comparison``."""
        from agentserver.history.policy_diff import compare_what_if

        self._conversations += 1
        changed = _describe_alteration(altered)
        if changed is not None:
            self._skip(recorded, changed)
            return
        report = compare_what_if(recorded, self._rules, self._other)
        self._messages += len(report.differences)
        parted = False
        for difference in (one for one in report.differences if one.differs):
            self._changes[difference.now] += 1
            first, *continuation = _iter_difference_lines(difference)
            for line in (f"{recorded.beginning.id}: {first}", *continuation):
                self._say(line)
            if difference.parts and not parted:
                parted = True
                self._say(HYPOTHETICAL)
        if report.lost is not None:
            self._skip(recorded, f"compared up to the first step that is decided differently: {report.lost}")

    def _skip(self, recorded: RecordedConversation, reason: str) -> None:
        self._unknown += 1
        self._say(f"{recorded.beginning.id}: {reason}")

    def format_total(self) -> str:
        """Format the last line."""
        from agentserver.history.policy_diff import Disposition

        changes = ", ".join(f"{self._changes[each]} {each}" for each in Disposition if self._changes[each])
        unknown = f"; {self._unknown} conversations could not be compared" if self._unknown else ""
        head = f"{format_amount(self._conversations, 'conversation')}, {format_amount(self._messages, 'message')}"
        return f"{head}; changed: {changes or 'none'}{unknown}"


def _iter_difference_lines(difference: Difference) -> Iterator[str]:
    """Yield a line for a difference, and one below it for each further line of the guard's reason."""
    place = " ".join(filter(None, (difference.sender, "->", difference.to or "?", difference.root)))
    from agentserver.core.records.wording import WORDING

    first, *continuation = WORDING.describe_lines(difference.reason) or ("",)
    treated = f"was {difference.recorded}, would have been {difference.now}"
    yield f"step {difference.version}: {place}: {treated}{f' ({first})' if first else ''}"
    yield from (f"    {line}" for line in continuation)


def _save(recorded: RecordedConversation, target: Path, organism: tuple[Path, Secrets]) -> None:
    """Write a conversation and, unless it exists, its test. An existing file is never overwritten.

    Args:
        recorded: the conversation.
        target: the file; its folder is created.
        organism: file of the organism that the test loads, and its secrets.
    """
    from agentserver.history import export

    path, secrets = organism
    if target.exists():
        project.refuse(f"{target}: exists already")
    version = export.find_secret(recorded, secrets.redact)
    if version is not None:
        project.refuse(
            f"step {version} contains a secret of the organism, which every reader of the file would"
            " see; nothing is written. Record a conversation without it.",
        )
    name = export.name_test(target.stem)
    test = target.with_name(f"test_{name}.py")
    relative = os.path.relpath(path.resolve(), target.parent.resolve()).replace(os.sep, "/")
    project.write(target, export.dump(recorded).decode(), private=True)
    project.say(f"{target}: {len(recorded.steps)} steps; read it before you share it")
    if test.exists():
        project.say(f"{test}: exists already and is not changed")
        return
    project.write(test, export.write_test(target.name, relative), private=True)
    project.say(f"{test}: run it with pytest")
