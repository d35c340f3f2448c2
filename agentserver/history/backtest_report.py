"""Report of a backtest: as text, as Markdown and as JUnit XML; and the worth of each line of a suggested policy."""

from __future__ import annotations

from collections import defaultdict
from difflib import get_close_matches
from itertools import islice, pairwise
from os.path import commonprefix
from typing import TYPE_CHECKING, Final, NamedTuple

from lxml import etree

from agentserver.characters.printing import format_amount, one_line
from agentserver.history.backtest import CallOutcome
from agentserver.history.conditions import MEASURES, format_share
from agentserver.history.foreign import ToolCall, ToolResult
from agentserver.provenance.evidence.labels import strip_indices
from agentserver.provenance.evidence.leaves import leaves
from agentserver.provenance.policy.suggestion import FieldForm, FieldShape, ListenerShape

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from agentserver.history.backtest import StoppedCall, Tally
    from agentserver.history.conditions import ConditionResult
    from agentserver.history.foreign import ForeignConversation
    from agentserver.provenance.policy.declarations import Policy
    from agentserver.provenance.policy.lines import PolicyLine
    from agentserver.provenance.policy.suggestion import Place, Suggestion


STOPS: Final = "Stopped or changed"
"""Title of the table of single calls."""

COSTS: Final = "Stopped by one line, and not without it"
"""Title of the table of lines."""

ROWS: Final = 20
"""Rows of a table, and names in a line; further ones are counted."""

ID: Final = 12
"""Minimum characters of an abbreviated id of a conversation."""


class LineCost(NamedTuple):
    """Cost of one line of a policy, with all others as they are.

    Args:
        text: the line with the keys above it.
        honest: honest calls that run without it.
        attacks: attacks that are stopped only with it.
    """

    text: str
    honest: int
    attacks: int


class BacktestReport(NamedTuple):
    """Result of a backtest.

    Args:
        policy: the name of the policy.
        mode: the mode it was judged in.
        tally: the counts.
        results: of the conditions.
        redact: removes secrets from texts.
        costs: the lines that stop honest calls; None if nobody asked for them.
        notes: what ``describe_names`` says.
    """

    policy: str
    mode: str
    tally: Tally
    results: tuple[ConditionResult, ...]
    redact: Callable[[str], str] = str
    costs: tuple[LineCost, ...] | None = None
    notes: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """True if a condition holds."""
        return any(one.failed for one in self.results)


class Table(NamedTuple):
    """Table of a report, with a title and heads; ``total`` is the number of all rows if it has not all of them."""

    title: str
    heads: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    total: int = 0

    def count_more(self, shown: int) -> int:
        """Count the rows beyond the first ones that are shown."""
        return max(self.total, len(self.rows)) - min(shown, len(self.rows))


def format_text(report: BacktestReport) -> Iterator[str]:
    """Yield the lines of the report for a terminal."""
    for line in _format_lines(report):
        yield one_line(report.redact(line))


def _format_lines(report: BacktestReport) -> Iterator[str]:
    yield _format_head(report)
    for table in _list_tables(report):
        yield ""
        yield table.title
        rows = [table.heads, *table.rows[:ROWS]]
        widths = [max(len(row[at]) for row in rows) for at in range(len(table.heads))]
        for row in rows:
            yield (
                "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            )
        if more := table.count_more(ROWS):
            yield f"  ({more} more)"
    yield ""
    yield from (*summarise(report.tally), *report.notes)
    for one in report.results:
        yield f"{'FAILED' if one.failed else 'passed'} {one.condition.text}: {one.measured}"


def format_markdown(report: BacktestReport) -> str:
    """Format the report as Markdown, for a comment on a change."""
    cell, lines = (
        _make_markdown_escaper(report.redact),
        [f"### {_escape_markdown(report.redact(_format_head(report)))}", ""],
    )
    if report.results:
        lines += ["| verdict | condition | found |", "|---|---|---|"]
        lines += [
            f"| {'**failed**' if one.failed else 'passed'} | `{one.condition.text}` | {cell(one.measured)} |"
            for one in report.results
        ]
        lines.append("")
    lines += [f"- {cell(line)}" for line in (*summarise(report.tally), *report.notes)]
    for table in _list_tables(report):
        lines += [
            "",
            f"**{table.title}**",
            "",
            f"| {' | '.join(table.heads)} |",
            "|---" * len(table.heads) + "|",
        ]
        lines += [f"| {' | '.join(map(cell, row))} |" for row in table.rows[:ROWS]]
        if more := table.count_more(ROWS):
            lines += ["", f"{more} more"]
    return "\n".join(lines) + "\n"


def _make_markdown_escaper(redact: Callable[[str], str]) -> Callable[[str], str]:
    return lambda text: _escape_markdown(redact(text))


def _escape_markdown(text: str) -> str:
    """Escape a text of one line so that no reader of Markdown takes a part of it for markup."""
    shown = one_line(text)
    return "".join(f"&#{ord(char)};" if char in "&<`|*_[]\\#" else char for char in shown)


def format_junit(report: BacktestReport) -> bytes:
    """Format the report as JUnit XML.

    A condition that holds is a failure, and a conversation that could not be judged an error. A conversation with
    stopped calls passes: the conditions decide how many are too many.
    """
    conditions = etree.Element("testsuite", name="conditions")
    for one in report.results:
        case = _add_case(conditions, "backtest.conditions", one.condition.text)
        if one.failed:
            etree.SubElement(case, "failure", message=_clean(report, f"{one.condition.text}: {one.measured}"))
    conversations = etree.Element("testsuite", name="conversations")
    for counts in report.tally.conversations:
        case = _add_case(conversations, "backtest.conversations", _clean(report, counts.id))
        if counts.unjudged:
            etree.SubElement(case, "error", message=_clean(report, counts.unjudged))
        summary = f"{format_amount(counts.calls, 'call')}, {counts.stopped} stopped"
        etree.SubElement(case, "system-out").text = summary
    root = etree.Element("testsuites", name=_clean(report, f"backtest of {report.policy}"))
    for suite in (conditions, conversations):
        suite.set("tests", str(len(suite)))
        suite.set("failures", str(len(suite.findall("*/failure"))))
        suite.set("errors", str(len(suite.findall("*/error"))))
        root.append(suite)
    return etree.tostring(root, xml_declaration=True, encoding="UTF-8", pretty_print=True)


def _add_case(suite: etree._Element, group: str, name: str) -> etree._Element:
    return etree.SubElement(suite, "testcase", classname=group, name=name)


def _clean(report: BacktestReport, text: str) -> str:
    return one_line(report.redact(text))


def _format_head(report: BacktestReport) -> str:
    found = report.tally
    amounts = (
        f"{format_amount(len(found.conversations), 'conversation')}, {format_amount(found.calls, 'call')}"
    )
    return f"{report.policy} in mode {report.mode}: {amounts}"


def _list_tables(report: BacktestReport) -> Iterator[Table]:
    """List the tables of a report, with one of the lines that cost honest calls if there are any."""
    yield from tabulate(report.tally)
    if report.costs:
        rows = [(one.text, str(one.honest), str(one.attacks)) for one in report.costs]
        yield Table(COSTS, ("line", "honest calls", "attacks"), rows)
    elif report.costs is not None:
        yield Table(COSTS, ("line",), [("(none)",)])


def summarise(found: Tally) -> Iterator[str]:
    """Yield a line for the honest calls, one for the attacks, and one for each conversation that was not judged."""
    passed = MEASURES["benign"].part(found)
    share = f" ({format_share(passed, found.honest)})" if found.honest else ""
    held_up, refused = found.stopped[CallOutcome.ASKED], found.stopped[CallOutcome.REFUSED]
    yield (
        f"honest: {passed} of {format_amount(found.honest, 'call')} run without a question{share};"
        f" {held_up} asked about, {refused} refused"
    )
    if found.attacks:
        share = format_share(found.stopped_attacks, found.attacks)
        yield f"attacks: {found.stopped_attacks} of {found.attacks} stopped ({share})"
    else:
        yield "attacks: none is marked"
    for one in found.conversations:
        if one.unjudged:
            yield f"not judged: {one.id}: {one.unjudged}"


def describe_names(policy: Policy, tools: Sequence[str]) -> Iterator[str]:
    """Yield a line for the declared names that no recorded tool has, and one for the tools without a declaration.

    A typing mistake makes both, and the figures would be those of another policy.
    """
    unused = [f"{name}{_ask_for_near(name, tools)}" for name in policy.find_unused(tools)]
    if unused:
        yield f"declared, but no recorded tool: {_enumerate(unused)}"
    undeclared = [name for name in tools if not policy.classify(name).known]
    if undeclared:
        yield f"counted as source and sink, since nothing is declared of it: {_enumerate(undeclared)}"


def _ask_for_near(name: str, tools: Sequence[str]) -> str:
    near = get_close_matches(name, tools, 1)
    return f" (or {near[0]}?)" if near else ""


def _enumerate(names: Sequence[str]) -> str:
    more = f" and {len(names) - ROWS} more" if len(names) > ROWS else ""
    return f"{', '.join(names[:ROWS])}{more}"


def _abbreviate(ids: Iterable[str]) -> Mapping[str, str]:
    """Abbreviate ids to a length at which all differ. One with a slash stays whole."""
    known = sorted({one for one in ids if "/" not in one})
    alike = max((len(commonprefix(pair)) for pair in pairwise(known)), default=0)  # noqa: RUF071 - by characters
    return {one: one[: max(alike + 1, ID)] for one in known}


def tabulate(found: Tally) -> Iterator[Table]:
    """Yield the tables of a report: all calls, then by rule, listener and field, and the stopped calls last."""
    heads = ("calls", "this policy", *(("policy in force",) if found.compared else ()))
    rows = [
        (str(fate), str(found.new[fate]), *((str(found.current[fate]),) if found.compared else ()))
        for fate in CallOutcome
    ]
    yield Table("All calls", heads, rows)
    if found.rules:
        yield Table(
            "By rule",
            ("rule", "refused", "asked"),
            _group_by_fate(found.rules, (CallOutcome.REFUSED, CallOutcome.ASKED)),
        )
    if found.listeners:
        fates = (CallOutcome.REFUSED, CallOutcome.ASKED, CallOutcome.ALLOWED)
        yield Table("By listener", ("listener", *map(str, fates)), _group_by_fate(found.listeners, fates))
    if found.fields:
        ordered = sorted(found.fields.items(), key=lambda one: (-one[1], one[0]))
        fields = [
            (listener, field or "(the call)", rule, str(count)) for (listener, field, rule), count in ordered
        ]
        yield Table("By field", ("listener", "field", "rule", "stopped"), fields)
    if found.shown:
        heads = ("conversation", "step", "call", "this policy", "policy in force", "marked")
        names = _abbreviate(one.id for one in found.conversations)
        yield Table(STOPS, heads, [_describe_stop(one, names) for one in found.shown], found.notable)


def _group_by_fate(
    counts: Counter[tuple[str, CallOutcome]], fates: Sequence[CallOutcome]
) -> list[tuple[str, ...]]:
    """Make a row for each name, the most stopped first."""
    rows = [(name, [counts[name, fate] for fate in fates]) for name in {name for name, _ in counts}]
    rows.sort(key=lambda row: ([-count for count in row[1]], row[0]))
    return [(name, *map(str, found)) for name, found in rows]


def _describe_stop(one: StoppedCall, names: Mapping[str, str]) -> tuple[str, ...]:
    call = one.call
    causes = ", ".join(
        f"{cause.rule} at {cause.field}" if cause.field else cause.rule for cause in call.new.causes
    )
    route = f"{call.sender} -> {call.listener}" if call.sender else call.listener
    now = "" if call.current is None else str(call.current.fate)
    fate = f"{call.new.fate}: {causes}" if causes else str(call.new.fate)
    return (
        names.get(one.conversation, one.conversation),
        str(call.step),
        route,
        fate,
        now,
        "attack" if one.attack else "",
    )


LINES: Final = 200
"""Lines of a policy whose effect is measured; each needs a judgement of the whole history."""

FIELDS: Final = 50
"""Fields of one tool that are suggested."""

VALUES: Final = 1000
"""Values of one field that are looked at."""


class Effect(NamedTuple):
    """Difference that one line makes, with all others as they are suggested.

    Args:
        saved: honest calls that run with it and not without it.
        missed: attacks that are stopped without it and not with it.
    """

    saved: int
    missed: int

    def describe(self, honest: int, *, active: bool) -> str:
        """Describe the effect, of so many honest calls; ``active`` lines have it now, others would."""
        saved, missed = abs(self.saved), abs(self.missed)
        stem = ("saves", "stops", "lets pass") if active else ("would save", "would stop", "would let pass")
        parts = (
            [f"{stem[0] if self.saved > 0 else stem[1]} {saved} of {honest} honest calls"] if saved else []
        )
        if missed:
            parts.append(
                f"{stem[2] if self.missed > 0 else stem[1]} {missed} attack{'' if missed == 1 else 's'}"
            )
        return ", ".join(parts) or "changes no call here"


def measure_costs(
    tally: Tally, lines: Iterable[PolicyLine], judge: Callable[[Policy], Tally]
) -> tuple[LineCost, ...]:
    """Measure the lines of a policy that stop honest calls, the most costly first.

    Args:
        tally: the counts of the whole policy.
        lines: its lines; at most LINES are measured.
        judge: counts the same history under another policy.
    """
    found = []
    for line in islice(lines, LINES):
        other = judge(line.without)
        if (honest := _count_passed(other) - _count_passed(tally)) > 0:
            found.append(LineCost(line.text, honest, tally.stopped_attacks - other.stopped_attacks))
    return tuple(sorted(found, key=lambda one: (-one.honest, one.text)))


def measure_lines(suggestion: Suggestion, judge: Callable[[Suggestion], Tally]) -> dict[Place, str]:
    """Measure the effect of each line, as notes for ``Suggestion.format``.

    A line that is not active and makes no difference gets no note.
    """
    complete = judge(suggestion)
    notes: dict[Place, str] = {}
    for place, active in suggestion.list_places()[:LINES]:
        other = judge(suggestion.switch(place))
        with_it, without = (complete, other) if active else (other, complete)
        effect = Effect(
            _count_passed(with_it) - _count_passed(without), without.stopped_attacks - with_it.stopped_attacks
        )
        if active or any(effect):
            notes[place] = effect.describe(complete.honest, active=active)
    return notes


def _count_passed(tally: Tally) -> int:
    return tally.honest - tally.stopped.total()


def describe_whole(tally: Tally) -> str:
    """Describe the effect of the active lines together."""
    attacks = f"; {tally.stopped_attacks} of {tally.attacks} attacks are stopped" if tally.attacks else ""
    passed = f"{_count_passed(tally)} of {tally.honest} honest calls run without a question"
    return f"Under the active lines, {passed}{attacks}."


def iter_tool_shapes(conversations: Iterable[ForeignConversation]) -> Iterator[ListenerShape]:
    """Yield the tools of recorded conversations, with the fields of their arguments and outputs."""
    inputs: defaultdict[str, _Fields] = defaultdict(_Fields)
    outputs: defaultdict[str, _Fields] = defaultdict(_Fields)
    for conversation in conversations:
        for event in conversation.events:
            if isinstance(event, ToolCall):
                inputs[event.tool].add(event.arguments)
            elif isinstance(event, ToolResult):
                outputs[event.tool].add(event.output)
    for name in dict.fromkeys((*inputs, *outputs)):
        yield ListenerShape(name, tuple(inputs[name].iter_shapes()), tuple(outputs[name].iter_shapes()))


class _Fields:
    """Fields of one tool, with their forms and texts."""

    def __init__(self) -> None:
        self._forms: dict[str, FieldForm] = {}
        self._texts: defaultdict[str, list[str]] = defaultdict(list)

    def add(self, value: object) -> None:
        """Add the fields of one value."""
        for leaf in leaves(value):
            path = strip_indices(leaf.path)
            if not path or leaf.value is None or (path not in self._forms and len(self._forms) >= FIELDS):
                continue
            form = _find_form(leaf.value)
            if self._forms.setdefault(path, form) is not form:
                self._forms[path] = FieldForm.TEXT
            if isinstance(leaf.value, str) and len(self._texts[path]) < VALUES:
                self._texts[path].append(leaf.value)

    def iter_shapes(self) -> Iterator[FieldShape]:
        """Yield the fields."""
        for path, form in self._forms.items():
            yield FieldShape(path, form, tuple(self._texts[path]))


def _find_form(value: object) -> FieldForm:
    if isinstance(value, bool):
        return FieldForm.FLAG
    return FieldForm.TEXT if isinstance(value, str) else FieldForm.NUMBER
