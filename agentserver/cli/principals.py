"""``agentserver principals``: manages who may reach the organism over the network.

A token is printed once, on standard output alone.
"""

from __future__ import annotations

import re
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentserver.cli import listing, project, reading
from agentserver.cli.project import Verbs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentserver.config.keys.models import Postgres
    from agentserver.gateways.principals import Rate
    from agentserver.gateways.principals.document import PrincipalEntry
    from agentserver.ports.principals import PrincipalStore


@click.group("principals", cls=Verbs, short_help="Manage who may reach the organism over the network.")
def command() -> None:
    """Add, list, rotate and revoke principals, who show a token to agentserver serve.

    They are stored in a file of mode 0600 next to the journal, or next to the organism's file without one;
    servers that share a database store them there. Only the SHA-256 of each token is stored. A change takes
    effect at every running server within a second.
    """


def _parse_rate(ctx: click.Context, param: click.Parameter, value: str | None) -> Rate | None:
    from agentserver.gateways.principals import Rate

    del ctx, param
    if value is None:
        return None
    try:
        return Rate.parse(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@command.command("add", short_help="Add a principal and show its token.")
@click.argument("name")
@click.option(
    "--may",
    default="",
    metavar="A,B|all",
    help="Listeners that it may address, or all of them, also later ones; none by default.",
)
@click.option(
    "--trust",
    type=click.Choice(["orders", "relay", "stranger"]),
    default="stranger",
    show_default=True,
    help="How its words are trusted.",
)
@click.option(
    "--role",
    type=click.Choice(["user", "operator", "viewer", "worker"]),
    default="user",
    show_default=True,
    help="Its view: its own conversations, everything, everything redacted, or the calls of one listener.",
)
@click.option("--listener", default="", help="Listener whose calls a worker answers.")
@click.option(
    "--rate",
    callback=_parse_rate,
    default=None,
    help="Most requests per s, m or h, as in 10/s (the default; 1000/s for a worker).",
)
@click.option(
    "--open",
    "limit",
    type=click.IntRange(0, 1_000_000),
    default=20,
    show_default=True,
    help="Most open conversations.",
)
@reading.add_journal_option
def add(storage: reading.Storage, name: str, **options: Any) -> None:
    """Add the principal NAME. Its token is printed only once, alone on standard output.

    By default it is a stranger, whose words are untrusted text, and may address no listener. A revoked
    principal gets a new token and its former conversations. A worker (agentserver worker) answers the calls of
    its --listener, and has no other right.
    """
    from agentserver.core.state.principals import Principal, Trust
    from agentserver.gateways.principals import Caller, Rate, Role, tokens

    declared = _list_declared_names(storage.organism)
    may = _parse_targets(options["may"], declared)
    principal = Principal(name, Trust(options["trust"]), may)
    _check_name(principal, declared)
    role, listener = Role(options["role"]), options["listener"]
    _check_worker(listener, declared, works=role is Role.WORKER, may=may != ())
    rate = options["rate"] or Rate(1000 if listener else 10, "s")
    caller = Caller(principal, role, rate, options["limit"], listener=listener)
    store = _find_store(storage, begins=True)
    with _report_store_errors(store, name):
        token = tokens.add(store, caller)
    if caller.acts and may == ():
        project.say(f"{name} may address no listener: --may names listeners", err=True)
    project.say(f"{name} is in {store}; its token is shown once:", err=True)
    project.say(token)


@command.command("list", short_help="List the principals.")
@listing.add_list_options
@reading.add_journal_option
def list_principals(storage: reading.Storage, *, lists: listing.ListPrinter) -> None:
    """List the principals, including revoked ones. No part of a token is shown."""
    from agentserver.gateways.principals import tokens

    store = _find_store(storage)
    with _report_store_errors(store):
        found = tokens.list_entries(store)
    nothing = f"no principal is in {store}: agentserver principals add NAME --may LISTENER adds one"
    lists.print(map(_describe, found), COLUMNS, nothing)


COLUMNS = (
    "name",
    "role",
    "trust",
    listing.Column(
        "may", lambda row: "all" if row["may"] is None else row["may"] or row["listener"] or "none"
    ),
    "rate",
    "open",
    listing.make_time_column("added"),
    listing.make_time_column("revoked"),
    listing.make_time_column("former_until"),
)


@command.command("revoke", short_help="Revoke a principal's tokens.")
@click.argument("name")
@reading.add_journal_option
def revoke(storage: reading.Storage, name: str) -> None:
    """Revoke the principal NAME. A running server ends its streams within a second; its conversations stay."""
    from agentserver.gateways.principals import tokens

    store = _find_store(storage)
    with _report_store_errors(store, name):
        tokens.revoke(store, name)
    project.say(f"{name} is revoked")


def _parse_grace(ctx: click.Context, param: click.Parameter, value: str) -> float:
    del ctx, param
    found = re.fullmatch(r"([0-9]{1,6})(s|m|h|d)", value)
    if found is None:
        raise click.BadParameter(f"{value!r} is not a duration: write 30s, 15m, 24h or 7d")
    return int(found[1]) * {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}[found[2]]


@command.command("rotate", short_help="Replace a principal's token.")
@click.argument("name")
@click.option(
    "--grace",
    callback=_parse_grace,
    default="24h",
    show_default=True,
    help="How long its current token stays valid, in s, m, h or d; 0s ends it at once.",
)
@reading.add_journal_option
def rotate(storage: reading.Storage, name: str, grace: float) -> None:
    """Give the principal NAME a new token, printed only once, alone on standard output.

    The current token stays valid for --grace, so that programs can be updated. A token that is still valid from
    an earlier rotation expires at once. Rights, conversations and streams stay as they are.
    """
    from agentserver.gateways.principals import tokens

    store = _find_store(storage)
    with _report_store_errors(store, name):
        token = tokens.rotate(store, name, grace)
    project.say(
        f"{name} has a new token; the former one is valid until {listing.format_time(time.time() + grace)}:",
        err=True,
    )
    project.say(token)


def _find_store(storage: reading.Storage, *, begins: bool = False) -> PrincipalStore:
    """Find the store of principals. Ends the command if its place is unknown.

    In a database, ``begins`` creates the tables, as the first server that starts does.
    """
    from agentserver.config.keys.models import Journal
    from agentserver.gateways.principals import document

    if storage.journal is not None:
        return document.locate_principal_file(storage.journal)
    if reading.READERS in project.find_shared_values() and storage.organism is None:
        project.refuse("name the organism with --organism: its principals are stored next to it")
    default = Path(Journal().path)
    if project.find_organism(storage.organism) is None and project.is_file(default):
        return document.locate_principal_file(default)
    main = project.find_organism_or_raise(storage.organism)
    seen = project.read_glimpse(main)
    if seen.engine is not None:
        from agentserver.assembly import open_shared_principals  # most organisms have a file

        if begins and seen.engine.migrate != "never":
            _make_tables(seen.engine)
        shared = open_shared_principals(seen.engine)
        click.get_current_context().call_on_close(shared.close)
        return shared
    if seen.unkept:
        return document.locate_principal_file(main)
    return document.locate_principal_file(reading.find_journal(seen, main))


def _make_tables(keys: Postgres) -> None:
    import anyio

    from agentserver.assembly import describe_postgres_options

    options = describe_postgres_options(keys)
    from agentserver.engines.postgres.operations import migrate

    anyio.run(migrate, options)


def _list_declared_names(organism: Path | None) -> frozenset[str]:
    """List the listeners in the organism's files, without those of MCP servers; empty without an organism."""
    file = project.find_organism(organism)
    return frozenset() if file is None else frozenset(project.iter_declared_names(file))


def _parse_targets(text: str, declared: frozenset[str]) -> tuple[str, ...] | None:
    """Parse the listeners that a principal may address; None for all. A listener that is called so has the name."""
    if text.strip() == "all" and "all" not in declared:
        return None
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def _check_worker(listener: str, declared: frozenset[str], *, works: bool, may: bool) -> None:
    """End the command for a worker without a listener, and for any other principal with one."""
    if works != bool(listener):
        lacks = "a worker needs a listener: --listener NAME"
        project.refuse(lacks if works else "--listener is for a worker: --role worker")
    if works and may:
        project.refuse("--may: a worker addresses no listener")
    if listener and declared and listener not in declared:
        project.refuse(f"--listener: no listener is called {listener!r}{_suggest(listener, declared)}")


def _suggest(name: str, declared: frozenset[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, declared, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _check_name(principal: Any, declared: frozenset[str]) -> None:
    from agentserver.core.state import principals

    reason = principals.explain_unfit(principal.name, principals.reserved_looks(declared))
    if reason:
        project.refuse(f"{principal.name!r} {reason}, so it cannot be a principal")
    for each in principal.may or ():
        if declared and each not in declared and "." not in each:
            project.refuse(f"--may: no listener is called {each!r}{_suggest(each, declared)}")


@contextmanager
def _report_store_errors(store: PrincipalStore, name: str = "") -> Iterator[None]:
    """End the command when the store cannot be used, or has or lacks the name."""
    from agentserver.gateways.principals.document import DuplicateNameError

    try:
        with project.refuse_on(OSError, prefix=f"{store}: "):
            yield
    except DuplicateNameError as error:
        project.refuse(f"{error}: agentserver principals revoke {name} first, or choose another name")
    except LookupError:
        project.refuse(f"no principal {name!r} has a token; agentserver principals list")
    except ValueError as error:
        project.refuse(str(error))


def _describe(entry: PrincipalEntry) -> listing.Row:
    caller = entry.caller
    return {
        "name": caller.name,
        "role": str(caller.role),
        "trust": str(caller.principal.trust),
        "may": None if caller.principal.may is None else list(caller.principal.may),
        "rate": str(caller.rate),
        "open": caller.open,
        "listener": caller.listener or None,
        "added": entry.added,
        "revoked": entry.revoked,
        "former_until": None if entry.former is None else entry.former.until,
    }
