"""The fields of a listener on the command line: its help, and what a shell completes.

Owns the words and the names that come next. Both load the organism, as ``agentserver check`` does, and start nothing.
"""

from __future__ import annotations

import contextlib
import io
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from agentserver.cli import project

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from agentserver.core.guard import Rules
    from agentserver.gateways.form import FormField
    from agentserver.payload.codec import Codec

_ITEMS = "N counts from 0: {name}.0, then {name}.1"


class CallCommand(click.Command):
    """``call``, whose help and completion know the fields of the listener that is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words; with a listener and a word for help among them, show that listener's and end."""
        if not ctx.resilient_parsing and set(args) & set(ctx.help_option_names):
            self._explain(ctx, args)
        elif ctx.resilient_parsing and args and args[-1] in self._asking():
            args = args[:-1]  # its value is what is completed; without one click reads no word before it
        return super().parse_args(ctx, args)

    def _asking(self) -> set[str]:
        """The options that a value follows."""
        options = (each for each in self.params if isinstance(each, click.Option) and not each.is_flag)
        return {name for each in options for name in each.opts}

    def _explain(self, ctx: click.Context, args: Sequence[str]) -> None:
        given, _, _ = self.make_parser(ctx).parse_args([*args])
        listener, organism, root = (
            each if isinstance(each := given.get(name), str) else None
            for name in ("listener", "organism", "root")
        )
        asked = self.get_help_option(ctx)
        if listener is None or asked is None or not given.get(asked.name):
            return
        rules = project.rules(ctx, project.load(ctx, Path(organism) if organism else None))
        for codec in chosen(rules, listener, root):
            for line in _help(ctx, rules, listener, codec):
                project.say(line)
        click.echo(f"\nOptions beside the fields: {ctx.command_path} --help")
        ctx.exit()

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The options, and before them the fields that the listener still takes."""
        return [*complete_fields(ctx, self.params[0], incomplete), *super().shell_complete(ctx, incomplete)]


def codecs_of(rules: Rules, listener: str) -> Mapping[str, Codec]:
    """The payloads of a listener, by the names of their roots. Raises click.UsageError for no listener."""
    from agentserver.config.findings import did_you_mean
    from agentserver.payload.names import local

    known = rules.blueprint.listeners
    if listener not in known:
        hint = did_you_mean(listener, known) or f"there are: {', '.join(known)}"
        raise click.UsageError(f"no listener {listener!r}; {hint}")
    return {local(codec.name): codec for codec in map(rules.codecs.of, known[listener].payloads)}


def chosen(rules: Rules, listener: str, root: str | None) -> Sequence[Codec]:
    """The payloads of a listener that a root means: all without one. Raises click.UsageError for another's root."""
    codecs = codecs_of(rules, listener)
    if root is not None and root not in codecs:
        raise click.UsageError(f"{listener} takes {', '.join(codecs)}: say which with --root")
    return [*codecs.values()] if root is None else [codecs[root]]


def _help(ctx: click.Context, rules: Rules, listener: str, codec: Codec) -> Iterator[str]:
    """The lines about one payload of a listener."""
    from agentserver.gateways.form import INDEX, form_fields
    from agentserver.payload.names import local

    root = local(codec.name)
    several = len(rules.blueprint.listeners[listener].payloads) > 1
    yield f"Usage: {ctx.command_path} {listener}{f' --root {root}' if several else ''} --FIELD VALUE ..."
    yield ""
    yield f"  {rules.blueprint.listeners[listener].description}"
    described = codec.described
    if described is None:
        yield f"  {root} has a schema of its own and goes as XML: --payload FILE"
        return
    if described.record.doc:
        yield f"  {root}: {' '.join(described.record.doc.split())}"
    fields = form_fields(codec)
    width = max((len(each.name) + 2 for each in fields), default=0)
    yield "" if fields else f"  {root} has no fields."
    for each in fields:
        label = f"{each.label}{' ...' if each.repeated else ''}"
        yield f"  {'--' + each.name:<{width}}  {label}{_remark(each)}"
        if each.doc:
            yield f"  {'':<{width}}  {each.doc}"
    lists = dict.fromkeys(each.path[: each.path.index(INDEX)] for each in fields if INDEX in each.path)
    for path in lists:
        yield f"  {_ITEMS.format(name='.'.join(path))}"
    yield ""
    words = [word for name, text in _sample(codec, fields) for word in (f"--{name}", shlex.quote(text))]
    yield " ".join([f"  {ctx.command_path}", listener, *(["--root", root] if several else []), *words])


def _remark(field: FormField) -> str:
    if field.default is not None:
        return f"  [default: {field.default}]" if field.default else "  [default: empty]"
    *above, _ = field.path
    return f"  [required{' in ' if above else ''}{'.'.join(above)}]" if field.required else ""


def _sample(codec: Codec, fields: Sequence[FormField]) -> Iterator[tuple[str, str]]:
    """The fields of the payload's example that are not their defaults, as they are typed."""
    from lxml import etree

    known = {field.path: field for field in fields}
    root = etree.fromstring(codec.example(), etree.XMLParser(resolve_entities=False, no_network=True))
    yield from _typed(root, known, (), ())


def _typed(
    element: Any, known: Mapping[tuple[str, ...], FormField], path: tuple[str, ...], typed: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
    from agentserver.gateways.form import INDEX
    from agentserver.payload.names import local

    if path in known:
        if (element.text or "") != known[path].default:
            yield ".".join(typed), element.text or ""
        return
    yield from ((".".join((*typed, name)), text) for name, text in element.attrib.items())
    counts: dict[str, int] = {}
    for child in element:
        name = local(child.tag)
        below = (*path, name)
        index = counts[name] = counts.get(name, -1) + 1
        listed = any(each[: len(below) + 1] == (*below, INDEX) for each in known)
        more, number = ((INDEX,), (str(index),)) if listed else ((), ())
        yield from _typed(child, known, (*below, *more), (*typed, name, *number))


def complete_fields(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The words that may follow those of a call: a field of the listener, or a text that its last field may hold."""
    del param
    given = [
        word for word in ctx.params.get("fields") or () if word != "="
    ]  # bash has --field=value as three words
    fields = [*_fields(ctx)]
    values = _after(given, fields)
    if values is not None:
        return [CompletionItem(text) for text in values if text.startswith(incomplete)]
    taken = {word.partition("=")[0] for word in given}
    return [
        CompletionItem(word, help=_summary(field))
        for field in fields
        for word in _next(field, taken)
        if word.startswith(incomplete)
    ]


def complete_roots(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The payloads of the listener that is named."""
    del param
    return [CompletionItem(root) for root in _codecs(ctx) if root.startswith(incomplete)]


def _fields(ctx: click.Context) -> Iterator[FormField]:
    from agentserver.gateways.form import form_fields

    root = ctx.params.get("root")
    for name, codec in _codecs(ctx).items():
        if root in {None, name}:
            yield from form_fields(codec)


def _codecs(ctx: click.Context) -> Mapping[str, Codec]:
    """The payloads of the listener that is named, by the names of their roots; none where there is no such listener."""
    rules, listener = _rules(ctx.params.get("organism")), str(ctx.params.get("listener"))
    if rules is None or listener not in rules.blueprint.listeners:
        return {}
    return codecs_of(rules, listener)


def _rules(path: Path | None) -> Rules | None:
    """The rules of the organism, or None where it does not load: a shell that completes has nowhere to say why."""
    from agentserver import config, rulebook
    from agentserver.payload.xmlify import PayloadError

    file = project.found(path)
    if file is None:
        return None
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            return rulebook.rules(config.load(file, environ=os.environ))
    except (config.ConfigError, PayloadError):
        return None


def _after(given: Sequence[str], fields: Sequence[FormField]) -> tuple[str, ...] | None:
    """The texts that the last word asks for; None where it is no field that waits for one."""
    if not given or not given[-1].startswith("--") or "=" in given[-1]:
        return None
    path = tuple(given[-1][2:].split("."))
    return next((field.choices for field in fields if _fits(field, path)), ())


def _fits(field: FormField, path: Sequence[str]) -> bool:
    from agentserver.gateways.form import INDEX

    return len(field.path) == len(path) and all(
        part.isdecimal() if name == INDEX else name == part
        for name, part in zip(field.path, path, strict=True)
    )


def _next(field: FormField, taken: set[str]) -> Iterator[str]:
    """The options by which a field may come next: of the last item that lacks it, and of one more."""
    from agentserver.gateways.form import INDEX

    names = [field.name]
    while INDEX in names[0].split("."):
        names = [each for name in names for each in _numbered(name, taken)]
    for name in names:
        if f"--{name}" not in taken or field.repeated:
            yield f"--{name}"


def _numbered(name: str, taken: set[str]) -> Iterator[str]:
    """A name with a number for the first INDEX in it: that of the last item that is given, and the next."""
    from agentserver.gateways.form import INDEX

    parts = name.split(".")
    place = parts.index(INDEX)
    head = "--" + ".".join(parts[:place]) + "."
    numbers = (word.removeprefix(head).split(".")[0] for word in taken if word.startswith(head))
    known = (int(number) for number in numbers if number.isdecimal() and len(number) < 10)  # noqa: PLR2004 - digits
    last = max(known, default=-1)
    for index in range(max(last, 0), last + 2):
        yield ".".join([*parts[:place], str(index), *parts[place + 1 :]])


def _summary(field: FormField) -> str:
    return f"{field.label}{_remark(field)}{f'  {field.doc}' if field.doc else ''}"
