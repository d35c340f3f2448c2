"""``agentserver plan``: whether the steps of a plan hand over what the next ones take.

Owns the options and the exit codes. The findings are handoff's.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from agentserver.cli import project
from agentserver.cli.verbs import Verbs

HARD = 1
FORMS = ("text", "json", "sarif")
"""As ``handoff.edge.plan.FindingsFormat`` has them, which is slow to import."""


@click.command("audit", short_help="Name every handoff that does not fit.")
@click.argument("plan", type=click.Path(path_type=Path))
@click.option(
    "--root",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=Path(),
    show_default="the current one",
    help="Directory that holds schemas/handoff-payloads.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMS),
    default=FORMS[0],
    show_default=True,
    help="Lines for people, a JSON list, or SARIF 2.1.0.",
)
@click.pass_context
def audit(ctx: click.Context, plan: Path, root: Path, form: str) -> None:
    """Audit PLAN, a CSV file of steps: open the schemas that its steps name and compare their ids.

    Prints each finding with its line in the file. Exit code 1 when one is HARD, 2 when the file is no plan.
    """
    from agentserver.handoff.plans.audit import FindingsFormat, audit_plan, fails, written
    from agentserver.handoff.plans.steps import StepsError

    try:
        findings = audit_plan(plan, root, datetime.now(UTC).date())
    except StepsError as error:
        project.refuse(ctx, str(error))
    except OSError as error:
        hint = "" if plan.exists() else ": a plan is a file with a row for each handoff (docs/handoffs.md)"
        project.refuse(ctx, f"{plan}: {error.strerror}{hint}")
    click.echo(written(findings, str(plan), FindingsFormat(form)))
    ctx.exit(HARD if fails(findings) else 0)


command = Verbs(
    "plan",
    commands=[audit],
    short_help="Audit a plan's handoffs.",
    help="Plans: CSV files of steps that hand work over.",
)
