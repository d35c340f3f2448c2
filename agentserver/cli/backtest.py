"""``agentserver provenance backtest``: tries a policy on recorded conversations before it is in force."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from agentserver.characters.printing import format_amount
from agentserver.cli import project, reading
from agentserver.cli.process import ExitCode
from agentserver.extras import require

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import TypeAlias

    from agentserver.config import Organism
    from agentserver.config.organism import Provenance
    from agentserver.core.encoding.history import ConversationFilter, RecordedConversation
    from agentserver.core.guard import Rules
    from agentserver.core.messages import Delivery
    from agentserver.history.backtest import JudgedConversation, Labels, Tally, TriedPolicy
    from agentserver.history.backtest_report import LineCost
    from agentserver.history.conditions import Condition
    from agentserver.history.foreign import ForeignConversation
    from agentserver.ports import EngineReader
    from agentserver.provenance.evidence.labels import Mode
    from agentserver.provenance.policy.declarations import Policy
    from agentserver.provenance.policy.suggestion import ListenerShape, Suggestion

    ListenerShaper: TypeAlias = Callable[[Organism, Rules, Iterable[Delivery]], Iterable[ListenerShape]]
    """Function that describes the undeclared listeners of an organism from recorded messages."""

EVERY: Final = 2.0
"""Seconds between two notes of progress."""

SQLITE: Final = b"SQLite format 3\0"

LABELS: Final = 16_000_000
"""Largest size of a file of marks, in bytes."""


@click.command("backtest", short_help="Try a policy on recorded conversations.")
@click.argument("policy", type=project.FILE)
@click.option(
    "--over",
    multiple=True,
    type=click.Path(path_type=Path, exists=True),
    metavar="PATH",
    help="Journal, recorded conversation, OpenTelemetry trace (OTLP JSON), log of AgentDojo, or folder of such; by"
    " default the organism's journal or database.",
)
@click.option(
    "--conversation", "prefixes", multiple=True, metavar="ID", help="Judge only this one of a journal."
)
@click.option(
    "--where",
    default="",
    help="Judge only matching conversations of a journal (see conversations --where).",
)
@click.option(
    "--last", type=click.IntRange(min=1), help="Judge only the last so many conversations of a journal."
)
@project.add_organism_option
@click.option(
    "--current",
    type=project.FILE,
    help="Policy to compare with; by default the organism's own.",
)
@click.option(
    "--mode",
    type=click.Choice(["confirm", "enforce"]),
    help="Mode to judge both policies in; by default that of POLICY, or enforce if it is audit.",
)
@click.option(
    "--labels", type=project.FILE, help="Marks, one a line: attack ID, attack ID STEP, or benign ID."
)
@click.option(
    "--fail-if",
    "conditions",
    multiple=True,
    metavar="CONDITION",
    help='Condition that makes the exit code 1, such as "benign<98%".',
)
@click.option(
    "--lines", is_flag=True, help="Name each line of POLICY without which more honest calls would run."
)
@click.option("--junit", type=project.FILE, help="Write the report to this file as JUnit XML.")
@click.option("--markdown", type=project.FILE, help="Write the report to this file as Markdown.")
def command(policy: Path, organism: Path | None, **options: Any) -> None:
    """Try POLICY on recorded conversations: count the calls that it would allow, ask about and refuse.

    No handler runs. The counts are by rule, listener and field, with those of the current policy next to them. Without
    --labels, every call counts as honest. Traces and logs of other programs need no organism: POLICY declares their
    tools as its listeners.

    A CONDITION is MEASURE<NUMBER or MEASURE<NUMBER%, with <, <=, > or >=. Measures: benign and attacks (shares of
    honest calls that run, and of marked attacks that are stopped), refused and asked (honest calls), newly-stopped,
    newly-missed (against the current policy), unjudged (conversations and files). unjudged>0 is in force unless
    you bound it yourself.

    The exit code is 1 if a condition holds.
    """
    from agentserver.history.backtest_report import BacktestReport, format_junit, format_markdown, format_text
    from agentserver.history.filters import parse_filter

    require("agentserver provenance backtest", "provenance")
    labels = _read_labels(options["labels"])
    with project.refuse_on(ValueError, prefix="--where: "):
        choice = _Choice(options["prefixes"], parse_filter(options["where"]), options["last"])
    trial = _Trial(policy, organism, options["current"], options["mode"], options["over"], choice)
    conditions = _read_conditions(options["conditions"], compared=trial.compares)
    tally = _Progress().tally(trial.judge(labels))
    _check_found(tally, labels)
    results = tuple(condition.check(tally) for condition in conditions)
    costs = trial.measure_costs(tally, labels) if options["lines"] else None
    notes = trial.list_notes()
    report = BacktestReport(str(policy), str(trial.mode), tally, results, trial.redact, costs, notes)
    for line in format_text(report):
        click.echo(line)
    if options["junit"] is not None:
        project.write(options["junit"], format_junit(report).decode())
    if options["markdown"] is not None:
        project.write(options["markdown"], format_markdown(report))
    project.exit_command(ExitCode.FOUND if report.failed else 0)


def _read_labels(path: Path | None) -> Labels:
    from agentserver.history.backtest import LabelError, Labels, read_labels

    if path is None:
        return Labels()
    with project.refuse_on(OSError, LabelError, UnicodeDecodeError, prefix=f"{path}: "):
        if path.stat().st_size > LABELS:
            project.refuse(f"{path}: it must have at most {LABELS} bytes")
        return read_labels(path.read_text("utf-8"), path.name)


def _read_conditions(texts: Sequence[str], *, compared: bool) -> tuple[Condition, ...]:
    """Read the conditions, and add the one on unjudged conversations. Ends the command on a mistake."""
    from agentserver.history.conditions import UNJUDGED, ConditionError, read_condition

    with project.refuse_on(ConditionError, prefix="--fail-if "):
        found = [read_condition(text, compared=compared) for text in texts]
    default = read_condition(UNJUDGED)
    return tuple(found if any(one.measure == default.measure for one in found) else [*found, default])


def _check_found(tally: Tally, labels: Labels) -> None:
    """End the command if there is nothing to judge, or a mark fits no conversation."""
    from agentserver.history.files import KINDS

    if not tally.conversations:
        suffixes = ", ".join(sorted(SUFFIXES))
        project.refuse("there is no recorded conversation", f"expected {KINDS}; in a folder, with {suffixes}")
    unused = labels.list_unused(one.id for one in tally.conversations)
    if unused:
        project.refuse(f"--labels: no conversation begins with {unused[0]}")


class _Progress:
    """Notes of progress on standard error, if that is a terminal."""

    def __init__(self) -> None:
        self._last = time.monotonic()
        self._shown = sys.stderr.isatty()

    def tally(self, conversations: Iterable[JudgedConversation]) -> Tally:
        """Count conversations as they are judged, with notes of progress."""
        from agentserver.history.backtest import Tally

        found = Tally()
        for judged in conversations:
            found.take(judged)
            self._note(found)
        return found

    def _note(self, tally: Tally) -> None:
        """Write a note if the last one is old enough."""
        now = time.monotonic()
        if self._shown and now - self._last >= EVERY:
            self._last = now
            amounts = (
                format_amount(len(tally.conversations), "conversation"),
                format_amount(tally.calls, "call"),
            )
            project.say(f"judged {', '.join(amounts)}", err=True)


class _TrialRules(NamedTuple):
    """Rules of an organism with its policies; ``changed`` is the organism under the policy that is tried."""

    organism: Organism
    changed: Organism
    rules: Rules
    new: TriedPolicy
    current: TriedPolicy | None


class _Choice(NamedTuple):
    """Choice of conversations of a journal.

    Args:
        prefixes: beginnings of the ids of the only ones; empty for all.
        where: filter.
        last: number of those that were opened last; None for all.
    """

    prefixes: Sequence[str]
    where: ConversationFilter
    last: int | None

    @property
    def is_narrowed(self) -> bool:
        """True if some conversations may be left out."""
        return bool(self.prefixes or self.where.conditions) or self.last is not None

    def list_ids(self, reader: EngineReader) -> list[str]:
        """List the chosen conversations. Ends the command if a prefix fits none or several."""
        from agentserver.history.filters import list_ids

        if self.prefixes:
            return [reading.find_conversation(reader, prefix) for prefix in self.prefixes]
        if not self.is_narrowed:
            return [one.id for one in reader.conversations()]
        return list_ids(reader, self.where, self.last)


class _Trial:
    """Trial of a policy on histories of several kinds.

    Args:
        policy: the file with the policy.
        organism: the organism's file, if named.
        current: the file with the policy in force, if named.
        mode: the mode to judge in, if named.
        over: the histories; without any, that of the organism.
        choice: of the conversations of a journal.
    """

    def __init__(
        self,
        policy: Path,
        organism: Path | None,
        current: Path | None,
        mode: str | None,
        over: Sequence[Path],
        choice: _Choice,
    ) -> None:
        self._organism, self._requested_mode, self._choice = organism, mode, choice
        self._files = _list_all_files(over)
        self._own = not over
        self._tools: set[str] = set()
        if over and choice.is_narrowed and not any(map(_is_journal, self._files)):
            project.refuse("--conversation, --where and --last choose from a journal, but --over names none")
        self._new: Policy | None = None
        self._current: Policy | None = None
        self._loaded: _TrialRules | None = None
        if self._own or any(map(_needs_organism, self._files)):
            self._load(policy, current)
        else:
            new = _read_policy(policy)
            self.mode = _choose_mode(new.mode, mode)
            self._new = replace(new, mode=self.mode)
            self._current = None if current is None else replace(_read_policy(current), mode=self.mode)

    def _load(self, policy: Path, current: Path | None) -> None:
        """Load the organism, and put it under each policy."""
        from agentserver.rulebook import build_rules_on_trial

        loaded = project.load(self._organism)
        rules = project.build_server(loaded).rules
        changed = _load_under(loaded, policy)
        self.mode = _choose_mode(_require_provenance(changed).policy.mode, self._requested_mode)
        tried = build_rules_on_trial(changed, self.mode)
        against = loaded if current is None else _load_under(loaded, current)
        before = None if against.provenance is None else build_rules_on_trial(against, self.mode)
        self._new = replace(_require_provenance(changed).policy, mode=self.mode)
        if against.provenance is not None:
            self._current = replace(against.provenance.policy, mode=self.mode)
        self._loaded = _TrialRules(loaded, changed, rules, tried, before)

    @property
    def compares(self) -> bool:
        """True if there is a policy in force."""
        return self._current is not None

    def redact(self, text: str) -> str:
        """Remove the organism's secrets from a text."""
        return text if self._loaded is None else self._loaded.organism.secrets.redact(text)

    def list_notes(self) -> tuple[str, ...]:
        """List how the policy's names fit the tools of the histories that were judged without an organism."""
        from agentserver.history.backtest_report import describe_names

        if self._loaded is not None or not self._tools:
            return ()
        assert self._new is not None
        return tuple(describe_names(self._new, sorted(self._tools)))

    def measure_costs(self, tally: Tally, labels: Labels) -> tuple[LineCost, ...]:
        """Measure the lines of the policy that stop honest calls."""
        from agentserver.history.backtest_report import measure_costs
        from agentserver.provenance.policy.lines import list_lines

        progress = _Progress()
        assert self._new is not None
        return measure_costs(
            tally, list_lines(self._new), lambda policy: progress.tally(self.judge(labels, policy))
        )

    def judge(self, labels: Labels, policy: Policy | None = None) -> Iterator[JudgedConversation]:
        """Judge every conversation of the histories.

        Args:
            labels: marks of attacks.
            policy: judges instead of the one on trial, in the same mode.
        """
        from agentserver.core.encoding.history import RecordedConversation
        from agentserver.history.backtest import JudgedConversation, judge_conversation
        from agentserver.history.foreign import UserWords, judge_foreign

        tried, loaded = self._new if policy is None else policy, self._loaded
        if policy is not None and loaded is not None:
            from agentserver.rulebook import build_rules_on_trial

            rules_on_trial = build_rules_on_trial(_with_policy(loaded.changed, policy), self.mode)
            loaded = loaded._replace(new=rules_on_trial)
        own = _read_storage(reading.Storage(self._organism), self._choice) if self._own else ()
        for one in chain(own, _read_files(self._files, self._organism, self._choice)):
            if one.fault or one.history is None:
                yield JudgedConversation(one.id, (), unjudged=one.fault)
            elif isinstance(one.history, RecordedConversation):
                assert loaded is not None
                _, _, rules, new, current = loaded
                yield judge_conversation(one.history, rules, new, current, labels.find_attacks_in(one.id))
            else:
                assert tried is not None
                self._tools.update(
                    event.tool for event in one.history.events if not isinstance(event, UserWords)
                )
                yield judge_foreign(one.history, tried, self._current, _list_attacks(one.history, labels))


def _list_attacks(history: ForeignConversation, labels: Labels) -> frozenset[int] | None:
    """List the marked steps of a foreign conversation, or those that it marks itself; None for all of it."""
    return labels.find_attacks_in(history.id, None if history.attack else frozenset())


class _ReadHistory(NamedTuple):
    """Conversation of a history, with the reason why it cannot be judged; empty if it can."""

    id: str
    history: RecordedConversation | ForeignConversation | None
    fault: str = ""


def _read_storage(storage: reading.Storage, choice: _Choice) -> Iterator[_ReadHistory]:
    """Read the chosen conversations of a journal or database."""
    with storage.open() as reader:
        for key in choice.list_ids(reader):
            recorded = reading.read_recorded_conversation(reader, key)
            altered = reader.find_altered(recorded)
            yield _ReadHistory(key, recorded, "" if altered is None else f"step {altered} was altered")


def _read_files(files: Iterable[Path], organism: Path | None, choice: _Choice) -> Iterator[_ReadHistory]:
    """Read every conversation of files, of journals the chosen ones. A file that cannot be read is one with a fault."""
    from agentserver.core.encoding.history import RecordedConversation
    from agentserver.history.files import read_history
    from agentserver.history.foreign import HistoryError

    for file in files:
        if _is_journal(file):
            yield from _read_storage(reading.Storage(organism, file), choice)
            continue
        try:
            for one in read_history(file):
                yield _ReadHistory(one.beginning.id if isinstance(one, RecordedConversation) else one.id, one)
        except OSError as error:
            yield _ReadHistory(str(file), None, error.strerror or "it cannot be read")
        except HistoryError as error:
            yield _ReadHistory(str(file), None, str(error).removeprefix(f"{file}: "))


def _read_all(files: Iterable[Path], organism: Path | None) -> list[Any]:
    """Read every conversation of files. Ends the command at one with a fault."""
    from agentserver.core.encoding.history import ConversationFilter

    found = [*_read_files(files, organism, _Choice((), ConversationFilter(), None))]
    for one in found:
        if one.fault:
            project.refuse(f"{one.id}: {one.fault}")
    return [one.history for one in found]


def suggest_over(
    over: Sequence[Path], marks: Path | None, organism: Path | None, shape: ListenerShaper
) -> str:
    """Suggest a policy from histories, with the effect of each line on them.

    Args:
        over: journals and recorded conversations, for the undeclared listeners of their organism; or traces and logs,
            for their tools.
        marks: the file of marks.
        organism: of journals and recorded conversations.
        shape: describes the undeclared listeners of an organism.

    Ends the command on a file that cannot be read, and on histories of both kinds.
    """
    require("agentserver provenance suggest --over", "provenance")
    labels, files = _read_labels(marks), _list_all_files(over)
    foreign = [file for file in files if not _needs_organism(file)]
    if files and not foreign:
        return _suggest_for_listeners(files, labels, organism, shape)
    if len(foreign) != len(files):
        project.refuse(f"{foreign[0]}: its tools are no listeners of the organism: suggest over it alone")
    if organism is not None:
        raise click.UsageError("traces and logs have no ORGANISM")
    return _suggest_for_tools(files, labels)


def _suggest_for_tools(files: Sequence[Path], labels: Labels) -> str:
    from agentserver.history.backtest_report import iter_tool_shapes
    from agentserver.history.foreign import judge_foreign
    from agentserver.provenance.evidence.labels import Mode
    from agentserver.provenance.policy.file import read_policy
    from agentserver.provenance.policy.suggestion import suggest

    found: list[ForeignConversation] = _read_all(files, None)
    progress = _Progress()

    def judge(suggestion: Suggestion) -> Tally:
        policy = replace(read_policy(suggestion.format()), mode=Mode.ENFORCE)
        return progress.tally(
            judge_foreign(each, policy, None, _list_attacks(each, labels)) for each in found
        )

    tools = tuple(iter_tool_shapes(found))
    if not tools:
        unread = (f"{each.id}: {each.unread}" for each in found if each.unread)
        project.refuse(next(unread, "the history has no tool call"))
    about = f"Proposed for {format_amount(len(tools), 'tool')}."
    suggestion = suggest(tools, about, mode="audit", alternatives=True)
    return _measure(suggestion, judge, labels)


def _suggest_for_listeners(
    files: Sequence[Path], labels: Labels, organism: Path | None, shape: ListenerShaper
) -> str:
    from agentserver.history.backtest import judge_conversation
    from agentserver.provenance.evidence.labels import Mode
    from agentserver.provenance.policy.declarations import Policy
    from agentserver.provenance.policy.file import read_policy
    from agentserver.provenance.policy.suggestion import suggest
    from agentserver.rulebook import build_rules_on_trial

    loaded = project.load(organism)
    rules, declared, progress = project.build_server(loaded).rules, loaded.provenance, _Progress()
    found: list[RecordedConversation] = _read_all(files, organism)
    before = Policy() if declared is None else declared.policy
    listeners = tuple(shape(loaded, rules, (each for one in found for each in one.deliveries.values())))
    counted = format_amount(len(listeners), "undeclared listener")
    about = f"Proposed for {counted}, over {format_amount(len(found), 'conversation')}."
    mode = "audit" if declared is None else ""

    def judge(suggestion: Suggestion) -> Tally:
        policy = _join_policies(before, read_policy(suggestion.format()))
        tried = build_rules_on_trial(_with_policy(loaded, policy), Mode.ENFORCE)
        return progress.tally(
            judge_conversation(each, rules, tried, None, labels.find_attacks_in(each.beginning.id))
            for each in found
        )

    return _measure(suggest(listeners, about, mode=mode, alternatives=True), judge, labels)


def _measure(suggestion: Suggestion, judge: Callable[[Suggestion], Tally], labels: Labels) -> str:
    """Format a suggestion with the effect of each line."""
    from agentserver.history.backtest_report import describe_whole, measure_lines

    result = judge(suggestion)
    _check_found(result, labels)
    unjudged = sum(bool(one.unjudged) for one in result.conversations)
    heads = [*suggestion.heads, describe_whole(result)]
    if unjudged:
        heads.append(f"{format_amount(unjudged, 'conversation')} could not be judged to the end.")
    return replace(suggestion, heads=tuple(heads)).format(measure_lines(suggestion, judge))


def _join_policies(before: Policy, after: Policy) -> Policy:
    """Add the suggested declarations to the organism's own, which cover other listeners."""
    return replace(
        before,
        sources=(*before.sources, *after.sources),
        sinks=(*before.sinks, *after.sinks),
        trusted=(*before.trusted, *after.trusted),
        relays=(*before.relays, *after.relays),
        inert=(*before.inert, *after.inert),
        fields=(*before.fields, *after.fields),
    )


def _with_policy(organism: Organism, policy: Policy) -> Organism:
    """Return the organism with a policy, and the rest of its ``provenance:``."""
    from agentserver.config.organism import Provenance

    provenance = (
        Provenance(policy) if organism.provenance is None else replace(organism.provenance, policy=policy)
    )
    return replace(organism, provenance=provenance)


def _read_policy(path: Path) -> Policy:
    """Read a policy that needs no organism. Ends the command on mistakes in it."""
    from agentserver.provenance.policy.file import PolicyError, read_policy

    with project.refuse_on(OSError, UnicodeDecodeError, prefix=f"{path}: "):
        text = path.read_text("utf-8-sig")
    with project.refuse_on(PolicyError):
        return read_policy(text, str(path))


def _load_under(loaded: Organism, policy: Path) -> Organism:
    """Put the organism under another provenance policy. Raises ConfigError."""
    from agentserver.config.lineage import PolicyText
    from agentserver.config.loading import replace_policy

    with project.refuse_on(OSError, UnicodeDecodeError, prefix=f"{policy}: "):
        text = policy.read_text("utf-8-sig")
    return replace_policy(loaded, PolicyText(policy, text), os.environ)


def _require_provenance(organism: Organism) -> Provenance:
    assert organism.provenance is not None
    return organism.provenance


def _choose_mode(declared: Mode, requested: str | None) -> Mode:
    from agentserver.provenance.evidence.labels import Mode

    return declared.on_trial if requested is None else Mode(requested)


def _list_all_files(over: Iterable[Path]) -> list[Path]:
    """List the histories of files and folders, each once."""
    return list({file.resolve(): file for path in over for file in _list_files(path)}.values())


def _list_files(path: Path) -> Iterable[Path]:
    """List the histories of a folder, in order; a file is itself."""
    if not path.is_dir():
        return [path]
    found = (Path(folder) / name for folder, _, names in os.walk(path) for name in names)
    return sorted(file for file in found if file.suffix in SUFFIXES)


SUFFIXES: Final = frozenset({".sqlite", ".db", ".json", ".jsonl", ".ndjson"})
"""Suffixes of the files that are read in a folder."""


def _is_journal(file: Path) -> bool:
    try:
        with file.open("rb") as stream:
            return stream.read(len(SQLITE)) == SQLITE
    except OSError:
        return False


def _needs_organism(file: Path) -> bool:
    """Check whether a history can be judged only by the rules of an organism."""
    from agentserver.history.files import is_export

    try:
        return _is_journal(file) or is_export(file)
    except OSError:
        return False
