"""``agentserver replay``: would everything be decided as it was, or by other rules?

Owns the reports, where a conversation is saved, and what the test beside it says. The comparisons are for
history/replay.py and history/policy_diff.py, the format of a saved conversation for history/export.py.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentserver.characters.printing import format_amount
from agentserver.cli import project
from agentserver.cli.reading import journal_option, one_conversation, reading, recorded_conversation, source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from agentserver.config import Organism
    from agentserver.config.yaml.secrets import Secrets
    from agentserver.core.encoding.recorded import RecordedConversation
    from agentserver.core.guard import Rules
    from agentserver.history.policy_diff import Difference
    from agentserver.ports import EngineReader

DIFFERENT = 1

FILE = click.Path(path_type=Path, dir_okay=False)

REALLY = "  from here on: what these rules say of what really happened, which would not have come to it"

TEST = '''\
"""Decides a recorded conversation again. Written by agentserver replay --save."""

from __future__ import annotations

from pathlib import Path

from agentserver.testing import replayed

HERE = Path(__file__).parent


def test_{name}() -> None:
    replayed(HERE / {file}, HERE / {organism})
'''


@click.command("replay", short_help="Decide recorded conversations again and compare.")
@click.argument("conversations", nargs=-1, metavar="[CONVERSATION]...")
@journal_option
@click.option(
    "--against", type=FILE, metavar="OTHER", help="What would this organism have blocked and let through?"
)
@click.option("--policy", type=FILE, help="What would the organism with this provenance policy?")
@click.option(
    "--save",
    type=FILE,
    metavar="FILE",
    help="Write the one CONVERSATION to FILE (.json), and beside it a pytest test that decides it again.",
)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    conversations: tuple[str, ...],
    organism: Path | None,
    journal: Path | None,
    **asked: Any,
) -> None:
    """Decide CONVERSATIONs, or every conversation of the journal, again under the organism as it is now.

    No handler runs: what handlers answered is in the journal. Prints the first step of each conversation that would
    be decided otherwise, or that is not what was written; exit code 1 when there is one.

    With --against or --policy: what other rules would have blocked, asked about and let through of what really
    happened; exit code 1 when anything.
    """
    _check_options(conversations, asked)
    loaded = project.load(ctx, organism)
    rules = project.server(ctx, loaded).rules
    kept = source(ctx, organism, journal)
    other = _other(ctx, loaded, asked)
    say = _saying(loaded, other)
    report: _Comparison | _WhatIf = _Comparison(say, rules)
    if other is not None:
        report = _WhatIf(say, rules, project.server(ctx, other).rules)
    with reading(ctx, kept) as reader:
        for recorded in _recorded(ctx, reader, conversations):
            altered = reader.altered(recorded)
            report.take(recorded, altered)
            if asked["save"] and altered is not None:
                project.refuse(ctx, "it is not what was written; nothing is saved")
            if asked["save"]:
                _save(ctx, recorded, asked["save"], (project.located(organism), loaded.secrets))
    say(report.total())
    ctx.exit(DIFFERENT if report.different else 0)


def _check_options(conversations: Sequence[str], asked: dict[str, Any]) -> None:
    if sum(asked[name] is not None for name in ("against", "policy", "save")) > 1:
        raise click.UsageError("--against, --policy and --save go one at a time")
    if asked["save"] and len(conversations) != 1:
        raise click.UsageError("--save takes exactly one CONVERSATION")


def _saying(*organisms: Organism | None) -> Callable[[str], None]:
    """Print a line without the organisms' secrets and without anything that a terminal could act on."""
    from agentserver.characters.printing import escape_unseen

    def say(text: str) -> None:
        for organism in organisms:
            text = text if organism is None else organism.secrets.redact(text)
        click.echo(escape_unseen(text))

    return say


def _other(ctx: click.Context, loaded: Organism, asked: dict[str, Any]) -> Organism | None:
    """The organism whose rules are asked beside, if one is."""
    from agentserver import config

    if asked["policy"]:
        return under_policy(ctx, loaded, asked["policy"])
    if asked["against"] is None:
        return None
    # Both may have modules of the same names. What the first was made of stays in use.
    config.forget(loaded)
    return project.load(ctx, asked["against"])


def under_policy(ctx: click.Context, loaded: Organism, policy: Path) -> Organism:
    """The organism with another provenance policy. Ends the command when there are mistakes in it."""
    from agentserver import config

    config.forget(loaded)
    return project.load(ctx, loaded.files[0], policy=policy)


def _recorded(
    ctx: click.Context, reader: EngineReader, prefixes: Sequence[str]
) -> Iterator[RecordedConversation]:
    keys = [one_conversation(ctx, reader, prefix) for prefix in prefixes]
    if not prefixes:
        keys = [one.id for one in reader.conversations()]
    return (recorded_conversation(reader, key) for key in keys)


class _Comparison:
    """Would everything be decided as it was?"""

    def __init__(self, say: Callable[[str], None], rules: Rules) -> None:
        self._say = say
        self._rules = rules
        self._total = self._steps = 0
        self.different = 0

    def take(self, recorded: RecordedConversation, altered: int | None) -> None:
        """Decide one conversation again; ``altered`` is its first step that is not what was written."""
        from agentserver.history.replay import replay

        self._total, self._steps = self._total + 1, self._steps + len(recorded.steps)
        found = _altered(altered) or replay(recorded, self._rules)
        if found is not None:
            self.different += 1
            self._say(f"{recorded.beginning.id}: {found}")

    def total(self) -> str:
        """The last line."""
        total, steps = format_amount(self._total, "conversation"), format_amount(self._steps, "step")
        return f"{total}, {steps}; {self.different} differ"


def _altered(version: int | None) -> str | None:
    return None if version is None else f"step {version} is not what was written"


class _WhatIf:
    """A comparison with the decisions of other rules."""

    def __init__(self, say: Callable[[str], None], rules: Rules, other: Rules) -> None:
        self._say = say
        self._rules = rules
        self._other = other
        self._conversations = self._messages = self._unknown = 0
        self._changes: Counter[str] = Counter()

    @property
    def different(self) -> int:
        """Count the messages that would be treated otherwise, and the conversations that cannot be told of."""
        return self._changes.total() + self._unknown

    def take(self, recorded: RecordedConversation, altered: int | None) -> None:
        """Ask about every message of one conversation; ``altered`` as of ``_Comparison``."""
        from agentserver.history.policy_diff import what_if

        self._conversations += 1
        changed = _altered(altered)
        if changed is not None:
            self._lose(recorded, changed)
            return
        report = what_if(recorded, self._rules, self._other)
        self._messages += len(report.differences)
        parted = False
        for difference in filter(_differs, report.differences):
            self._changes[difference.now] += 1
            first, *more = _told(difference)
            for line in (f"{recorded.beginning.id}: {first}", *more):
                self._say(line)
            if difference.parts and not parted:
                parted = True
                self._say(REALLY)
        if report.lost is not None:
            self._lose(recorded, f"followed as far as the organism decides as it did: {report.lost}")

    def _lose(self, recorded: RecordedConversation, why: str) -> None:
        self._unknown += 1
        self._say(f"{recorded.beginning.id}: {why}")

    def total(self) -> str:
        """The last line."""
        from agentserver.history.policy_diff import Disposition

        changes = ", ".join(f"{self._changes[each]} {each}" for each in Disposition if self._changes[each])
        unknown = f"; {self._unknown} conversations could not be followed" if self._unknown else ""
        head = f"{format_amount(self._conversations, 'conversation')}, {format_amount(self._messages, 'message')}"
        return f"{head}; otherwise than then: {changes or 'none'}{unknown}"


def _differs(difference: Difference) -> bool:
    return difference.differs


def _told(difference: Difference) -> Iterator[str]:
    """One line, and one below it for each further line that a guard has to say."""
    place = " ".join(filter(None, (difference.sender, "->", difference.to or "?", difference.root)))
    from agentserver.core.records.wording import WORDING

    first, *more = WORDING.lines(difference.why) or ("",)
    treated = f"was {difference.then}, would have been {difference.now}"
    yield f"step {difference.version}: {place}: {treated}{f' ({first})' if first else ''}"
    yield from (f"    {line}" for line in more)


def _save(
    ctx: click.Context, recorded: RecordedConversation, target: Path, organism: tuple[Path, Secrets]
) -> None:
    """Write a conversation and, if there is none yet, its test. An existing file is never overwritten.

    Args:
        ctx: of the command, which ends when the conversation holds a secret or cannot be written.
        recorded: the conversation.
        target: the file; its folder is made.
        organism: the file of the organism that the test loads, and its secrets.
    """
    from agentserver.history import export

    path, secrets = organism
    if target.exists():
        project.refuse(ctx, f"{target}: exists already")
    for version, text in export.texts(recorded):
        if secrets.redact(text) != text:
            project.refuse(
                ctx,
                f"step {version} holds a value that the organism takes from the environment or a file, and whoever"
                " reads the file could read it; nothing is written. Record a conversation without it.",
            )
    name = re.sub(r"\W+", "_", target.stem).strip("_").lower() or "conversation"
    test = target.with_name(f"test_{name}.py")
    where = os.path.relpath(path.resolve(), target.parent.resolve()).replace(os.sep, "/")
    project.write(target, export.dump(recorded).decode(), private=True)
    project.say(f"{target}: {len(recorded.steps)} steps; read it before you share it")
    if test.exists():
        project.say(f"{test}: exists already and is left as it is")
        return
    project.write(test, TEST.format(name=name, file=repr(target.name), organism=repr(where)), private=True)
    project.say(f"{test}: run it with pytest")
