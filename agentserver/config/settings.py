"""A listener's settings, checked by the author's own dataclass.

Owns the check and its wording. Refuses to know what settings are for.
"""

from __future__ import annotations

import dataclasses
import typing
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError

from agentserver.config.findings import did_you_mean
from agentserver.config.userland import Crash, attempt
from agentserver.config.validation import describe

if TYPE_CHECKING:
    from agentserver.config.findings import Loc, Report
    from agentserver.config.userland import Project
    from agentserver.config.validation import Declared


def make_settings(kind: type, declared: Declared, project: Project, report: Report) -> object | None:
    """An instance of the settings class, or None after findings.

    Texts become numbers, dates and so on where the fields ask for it, since a value from the environment is
    always text. Unknown keys are refused in nested dataclasses too.
    """
    made = attempt(lambda: _validated(kind, declared.entry.settings or {}))
    if not isinstance(made, Crash):
        copied = attempt(lambda: deepcopy(made))
        if isinstance(copied, Crash):
            report.error(
                declared.where("settings_class"),
                f"{kind.__qualname__} cannot be copied, and each invocation gets settings of its own: "
                f"{project.explain(copied)}",
                "what handlers share, such as a client or a lock, belongs into the lifespan",
            )
            return None
        return made
    if isinstance(made.error, ValidationError):
        for fault in made.error.errors(include_url=False, include_input=False):
            _report(kind, declared, fault, report)
    else:
        problem = (
            "has fields that cannot be checked" if isinstance(made.error, PydanticUserError) else "failed"
        )
        message = f"{kind.__qualname__} {problem}: {project.explain(made)}"
        report.error(declared.where("settings_class"), message)
    return None


def _validated(kind: type, data: dict[str, Any]) -> object:
    """The class stands in a tuple because a dataclass by itself takes no configuration from outside."""
    config = ConfigDict(extra="forbid", hide_input_in_errors=True)
    (made,) = TypeAdapter(tuple[kind], config=config).validate_python((data,))  # type: ignore[valid-type]
    return cast("object", made)


def _report(kind: type, declared: Declared, fault: Any, report: Report) -> None:
    loc = fault["loc"][1:]
    where = declared.where("settings", *loc, missing="missing" in fault["type"])
    if declared.entry.settings is None:
        where = replace(where, line=declared.where("settings_class").line)
    if fault["type"] == "unexpected_keyword_argument":  # pydantic's word for a dataclass's unknown key
        known = _fields_at(kind, loc[:-1])
        report.error(where, f'unknown key "{loc[-1]}"', did_you_mean(str(loc[-1]), known))
        return
    read_as = declared.document.read_as.get(("listeners", declared.index, "settings", *loc))
    report.error(where, *describe(fault, read_as))


def _fields_at(kind: Any, loc: Loc) -> list[str]:
    """The field names of the dataclass at a place inside the settings, as far as it can be found."""
    for part in loc:
        if isinstance(part, str):
            hint = typing.get_type_hints(kind).get(part)
            kind = next((k for k in (hint, *typing.get_args(hint)) if dataclasses.is_dataclass(k)), None)
        if kind is None:
            return []
    return [field.name for field in dataclasses.fields(kind)]
