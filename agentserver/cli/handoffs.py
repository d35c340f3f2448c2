"""``agentserver plan``, ``audit`` and ``orchestrate``: plans, records and managed sources of handoffs."""

from __future__ import annotations

import json
import os
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentserver.cli import host, project
from agentserver.cli.process import ExitCode
from agentserver.cli.project import Verbs
from agentserver.extras import require

if TYPE_CHECKING:
    from collections.abc import Collection

    from agentserver.assembly import Server
    from agentserver.handoff.edge.heads import HeadStore
    from agentserver.handoff.intents import Vocabulary

FORMATS = ("text", "json", "sarif")
"""Copy of ``handoff.plans.audit.FindingsFormat``, which is slow to import."""


@click.command("audit", short_help="Report every handoff that does not fit.")
@click.argument("plan", type=click.Path(path_type=Path))
@click.option(
    "--root",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=Path(),
    show_default="the current one",
    help="Directory with schemas/handoff-payloads.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default=FORMATS[0],
    show_default=True,
    help="Lines for people, a JSON list, or SARIF 2.1.0.",
)
def audit(plan: Path, root: Path, form: str) -> None:
    """Audit PLAN, a CSV file of steps: open the schemas that its steps name and compare their ids.

    Prints each finding with its line in the file. Exit code 1 when a finding is HARD, 2 when the file is not a
    plan.
    """
    from agentserver.handoff.plans.audit import FindingsFormat, audit_plan, fails, write_findings
    from agentserver.handoff.plans.steps import StepsError

    try:
        findings = audit_plan(plan, root, datetime.now(UTC).date())
    except StepsError as error:
        project.refuse(str(error))
    except OSError as error:
        hint = "" if plan.exists() else ": a plan is a file with a row for each handoff (docs/handoffs.md)"
        project.refuse(f"{plan}: {error.strerror}{hint}")
    click.echo(write_findings(findings, str(plan), FindingsFormat(form)))
    project.exit_command(ExitCode.FOUND if fails(findings) else 0)


plan_command = Verbs(
    "plan",
    commands=[audit],
    short_help="Audit a plan's handoffs.",
    help="Audit plans: CSV files of steps that hand work over.",
)


@click.command("verify", short_help="Find records that were changed, removed or moved.")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@project.add_organism_option
@click.option(
    "--journal",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Journal that stores the end of FILE; the organism's own by default.",
)
def verify(file: Path | None, organism: Path | None, journal: Path | None) -> None:
    """Verify the hash chain of the handoff record in FILE, by default the organism's own.

    Compares its end with the one in the organism's journal; without organism or journal, with the note next to
    FILE. Prints the number of records and the last hash. Exit code 1, with the first bad line, when a record
    was altered, removed, added, inserted or moved; 2 when the file cannot be read.
    """
    from agentserver.handoff.audit import Flaw
    from agentserver.handoff.edge.records import DEFAULT, verify_file

    file, heads = _record(file or DEFAULT, organism, journal, explicit=file is not None)
    try:
        found = verify_file(file, partial(project.say, err=True), heads)
    except OSError as error:
        hint = "" if file.exists() else ": no handoff was recorded there; name the record's file"
        project.refuse(f"{file}: {error.strerror or error}{hint}")
    if isinstance(found, Flaw):
        project.say(f"{file}: the record in line {found.line} {found.detail}")
        project.exit_command(ExitCode.FOUND)
    project.say(
        f"{file}: intact, {found.count} record{'' if found.count == 1 else 's'}, last hash {found.hash}"
    )


def _record(
    file: Path, organism: Path | None, journal: Path | None, *, explicit: bool
) -> tuple[Path, HeadStore | None]:
    """Find the file and the stored end of its chain, as far as an organism or a journal has one."""
    from agentserver.assembly import find_handoff_record, open_handoff_heads
    from agentserver.engines.sqlite.handoffs import JournalHeadStore

    if journal is not None:
        return file, _find_heads_with_entry(JournalHeadStore(journal, str(file)))
    if organism is None and not any(map(project.is_file, project.DEFAULTS)):
        return file, None
    loaded = project.load(organism)
    own = find_handoff_record(loaded)
    if own is None or (explicit and own.resolve() != file.resolve()):
        return file, None
    return file if own.resolve() == file.resolve() else own, _find_heads_with_entry(
        open_handoff_heads(loaded)
    )


def _find_heads_with_entry(heads: HeadStore | None) -> HeadStore | None:
    """Return the heads, or None if they do not know the file yet, so that only the note next to it counts."""
    try:
        return None if heads is None or heads.read() is None else heads
    except (OSError, ValueError):
        return heads


audit_command = Verbs(
    "audit",
    commands=[verify],
    short_help="Verify the record of handoffs.",
    help="Verify the record of handoffs, which contains every attempt.",
)


KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")


@click.command("orchestrate", short_help="Hand over the requests of a managed agent.")
@click.option(
    "--organism",
    type=project.FILE,
    help="Hand requests to the listeners of this organism, by its intents, instead of to managed agents.",
)
@click.option(
    "--vocabulary",
    type=project.FILE,
    help="Judge by the intents of this organism, which does not run; by default those of the reference loop.",
)
@click.option(
    "--dry-run",
    "dry",
    is_flag=True,
    help="Judge requests and print the verdicts; send, answer and record nothing.",
)
@click.option("--tool", is_flag=True, help="Print the definition of the tool handoff_request and exit.")
def orchestrate_command(organism: Path | None, vocabulary: Path | None, *, dry: bool, tool: bool) -> None:
    """Watch a managed agent's session and hand its requests over until the session ends.

    Every attempt is recorded in out/handoff-audit.jsonl or the organism's own record. The position in the
    session is kept in out/, so that requests made meanwhile are handled at the next start. Needs the extra
    managed.

    \b
    SOURCE_SESSION_ID  session to watch; required
    AGENT_IDS          JSON object from target to session id; default {}
    SOURCE_AGENT       sender's name on the record; default unknown
    ENVIRONMENT_ID     when set, AGENT_IDS has agent ids, and each handoff
                       gets a session of its own
    ANTHROPIC_API_KEY  as the SDK reads it, like its other variables
    """  # noqa: D301 - click's mark for unwrapped lines
    from agentserver.config.yaml.secrets import Secrets
    from agentserver.handoff.managed import orchestrate

    if organism is not None and (vocabulary is not None or dry):
        raise click.UsageError("--organism has its own intents, and does not run dry")
    project.set_up_logging(Secrets.of(os.environ.get(name, "") for name in KEYS))
    words = _load_vocabulary(organism or vocabulary)
    if tool:
        from agentserver.handoff.managed.orchestrate import definition

        click.echo(json.dumps(definition(words), indent=2))
        return
    into = None if organism is None else partial(_run_organism, _build_server(organism))
    start = into or partial(_run_loop, words, dry)
    targets = words.targets if into is None else None
    project.exit_command(orchestrate.main(os.environ, partial(click.echo, err=True), start, targets))


def _load_vocabulary(path: Path | None) -> Vocabulary:
    """Load the intents of an organism, or those of the reference loop."""
    from agentserver.handoff.managed.orchestrate import reference

    if path is None:
        return reference()
    loaded = project.load(path)
    if loaded.handoffs is None or not loaded.handoffs.vocabulary.intents:
        project.refuse(f"{path}: has no intents to judge requests by")
    return loaded.handoffs.vocabulary


def _run_loop(
    words: Vocabulary,
    dry: bool,  # noqa: FBT001 - bound by partial
    session_id: str,
    agents: Any,
    source: str,
    **options: Any,
) -> None:
    from agentserver.core.state import principals
    from agentserver.handoff.managed import orchestrate
    from agentserver.handoff.managed.agents import SessionCursor

    _check_source(source, principals.reserved_looks(()))
    desk = orchestrate.Desk(words, cursor=SessionCursor(session_id))
    with closing(_connect()) as client:
        if dry:
            orchestrate.rehearse(session_id, source, client=client, desk=desk, say=project.say)
        else:
            orchestrate.run(session_id, agents, source, client=client, desk=desk, **options)


def _check_source(source: str, reserved: Collection[str]) -> None:
    """Raise EnvironmentFault if the source's name cannot be a principal."""
    from agentserver.core.state import principals
    from agentserver.handoff.managed.orchestrate import EnvironmentFault

    reason = principals.explain_unfit(source, reserved)
    if reason:
        raise EnvironmentFault(f"SOURCE_AGENT {source!r} {reason}")


def _build_server(path: Path) -> Server:
    """Build the organism's server, which must have intents."""
    loaded = replace(project.load(path), strangers=True)
    server = project.build_server(loaded, durable=True)
    if server.rules.rewriter is None:
        project.refuse(f"{path}: has no intents to judge requests by")
    return server


def _run_organism(server: Server, session_id: str, _agents: object, source: str, **_more: object) -> None:
    """Run the organism until the session ends or a signal comes."""
    from agentserver.core.handoffs import Handoff
    from agentserver.core.state import principals
    from agentserver.gateways.bridge import Bridge
    from agentserver.handoff.edge.records import DEFAULT, AuditFile
    from agentserver.handoff.managed import agents
    from agentserver.handoff.managed.agents import SessionCursor

    _check_source(source, principals.reserved_looks(server.rules.blueprint.listeners))
    record = AuditFile(server.handoffs or DEFAULT, heads=server.heads)
    # A managed agent's requests are its model's output, derived from anything it has read.
    agent = principals.Principal(source, principals.Trust.STRANGER)
    bridge = Bridge(server, server.rules.codecs.of(Handoff), agent, record)
    lost: list[agents.SourceLost] = []

    async def listen() -> None:
        try:
            await bridge.run(agents.ManagedOutput(client, session_id, cursor=SessionCursor(session_id)))
        except agents.SourceLost as error:
            lost.append(error)

    ending = host.make_shutdown(server)
    with closing(_connect()) as client:
        try:
            host.run_server(server, ending, partial(host.run_until_signal, ending, listen))
        except click.exceptions.Exit:
            if lost:
                raise lost[0] from None
            raise


def _connect() -> Any:
    """Connect to the service. Raises MissingExtraError, EnvironmentFault."""
    from agentserver.handoff.managed import orchestrate

    require("a managed agent", "managed")
    return orchestrate.connect()
