"""Checks the settings of listeners and guards with the dataclass or model of the author."""

from __future__ import annotations

import dataclasses
import typing
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel, ConfigDict, PydanticUserError, TypeAdapter, ValidationError

from agentserver.config.code.userland import Crash, attempt
from agentserver.config.findings import did_you_mean
from agentserver.config.validation import describe, find_code, list_keys
from agentserver.remedies.configuration import ConfigCode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agentserver.config.code.userland import Project
    from agentserver.config.findings import Loc, Mistakes, SourceSpan
    from agentserver.config.yaml.document import Document


@dataclass(frozen=True, slots=True)
class SettingsValues:
    """Values for a class of the project, and their place.

    Args:
        document: that contains them.
        at: the path of the mapping.
        values: by the names of the fields; None without a mapping.
        class_path: the path of the class name.
    """

    document: Document
    at: Loc
    values: Mapping[str, Any] | None
    class_path: Loc

    @property
    def class_span(self) -> SourceSpan:
        """The place of the class name."""
        return self.document.locate(self.class_path)

    def locate(self, loc: Loc, *, missing: bool) -> SourceSpan:
        """Locate one value, or the mapping of a missing one."""
        found = self.document.locate((*self.at, *loc), missing=missing)
        return found if self.values is not None else replace(found, line=self.class_span.line)

    def read_as(self, loc: Loc) -> str | None:
        """Describe how YAML reads an unquoted value."""
        return self.document.read_as.get((*self.at, *loc))


def make_settings(kind: type, values: SettingsValues, project: Project, report: Mistakes) -> object | None:
    """Make a copyable instance of the settings class; None after findings."""
    settings = make(kind, values, project, report)
    copied = attempt(lambda: deepcopy(settings))
    if isinstance(copied, Crash):
        report.add_error(
            ConfigCode.SETTINGS,
            values.class_span,
            f"{kind.__qualname__} cannot be copied, and each invocation gets settings of its own: "
            f"{project.explain(copied)}",
            "what handlers share, such as a client or a lock, belongs into the lifespan",
        )
        return None
    return settings


def make(kind: type, values: SettingsValues, project: Project, report: Mistakes) -> object | None:
    """Make an instance of a class of the project; None after findings.

    Texts are converted to numbers, dates and so on where the fields require it, since a value from the environment is
    always text. Unknown keys are refused in nested dataclasses too.
    """
    unknown = _list_strange(kind, values)
    for key in unknown:
        report.add_error(
            ConfigCode.KEY,
            values.locate((key,), missing=False),
            *_describe_unknown(key, _list_fields_at(kind, ())),
        )
    if unknown:
        return None
    settings = attempt(lambda: validate_settings(kind, dict(values.values or {})))
    if not isinstance(settings, Crash):
        return settings
    if isinstance(settings.error, ValidationError):
        for fault in settings.error.errors(include_url=False, include_input=False):
            _report(kind, values, fault, report)
    else:
        problem = (
            "has fields that cannot be checked" if isinstance(settings.error, PydanticUserError) else "failed"
        )
        message = f"{kind.__qualname__} {problem}: {project.explain(settings)}"
        report.add_error(ConfigCode.SETTINGS, values.class_span, message)
    return None


def _list_strange(kind: type, values: SettingsValues) -> list[str]:
    """List the keys that a model does not have: unlike a dataclass, it may ignore them."""
    known = _list_fields_at(kind, ())
    return [key for key in values.values or () if key not in known] if issubclass(kind, BaseModel) else []


def _describe_unknown(key: str, known: Sequence[str]) -> tuple[str, str]:
    return f'unknown key "{key}"', did_you_mean(key, known)


def validate_settings(kind: type, data: dict[str, Any]) -> object:
    """Make an instance of a settings class. Raises ValidationError, and exceptions of the class.

    The class is in a tuple because a dataclass itself takes no external configuration.
    """
    config = ConfigDict(extra="forbid", hide_input_in_errors=True)
    (settings,) = TypeAdapter(tuple[kind], config=config).validate_python((data,))  # type: ignore[valid-type]
    return cast("object", settings)


def _report(kind: type, values: SettingsValues, fault: Any, report: Mistakes) -> None:
    loc = fault["loc"][1:]
    span = values.locate(loc, missing="missing" in fault["type"])
    if fault["type"] in _EXTRA:
        report.add_error(
            ConfigCode.KEY, span, *_describe_unknown(str(loc[-1]), _list_fields_at(kind, loc[:-1]))
        )
        return
    report.add_error(
        find_code(fault),
        span,
        *describe(fault, values.read_as(loc), values.document.show((*values.at, *loc))),
    )


_EXTRA = ("unexpected_keyword_argument", "extra_forbidden")
"""Error types of pydantic for an unknown key of a dataclass and of a model."""


def _list_fields_at(kind: Any, loc: Loc) -> list[str]:
    """List the keys of the nested dataclass or model at a path, as far as it can be found."""
    for part in loc:
        if isinstance(part, str):
            hint = typing.get_type_hints(kind).get(part)
            kind = next((k for k in (hint, *typing.get_args(hint)) if has_fields(k)), None)
        if kind is None:
            return []
    return list_fields(kind)


def has_fields(kind: object) -> bool:
    """Return True for a class whose fields can be settings: a dataclass or a model of pydantic."""
    return isinstance(kind, type) and (dataclasses.is_dataclass(kind) or issubclass(kind, BaseModel))


def list_fields(kind: Any) -> list[str]:
    """List the fields of such a class as keys of the YAML."""
    if issubclass(kind, BaseModel):
        return list_keys(kind)
    return [field.name for field in dataclasses.fields(kind) if field.init]
