"""Settings of listeners and guards, checked by the author's own dataclass or model.

Owns the check and its wording. Refuses to know what settings are for.
"""

from __future__ import annotations

import dataclasses
import typing
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel, ConfigDict, PydanticUserError, TypeAdapter, ValidationError

from agentserver.config.code.userland import Crash, attempt
from agentserver.config.findings import did_you_mean
from agentserver.config.validation import code_of, describe, keys_of
from agentserver.remedies.configuration import ConfigCode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agentserver.config.code.userland import Project
    from agentserver.config.findings import Loc, Mistakes, Where
    from agentserver.config.yaml.document import Document


@dataclass(frozen=True, slots=True)
class Given:
    """Values for a class of the project's, and where they stand.

    Args:
        document: that holds them.
        at: the mapping of the values.
        values: by the names of the class's fields; None where there is no such mapping.
        named: where the class is named.
    """

    document: Document
    at: Loc
    values: Mapping[str, Any] | None
    named: Loc

    @property
    def whose(self) -> Where:
        """The place of the class's name."""
        return self.document.where(self.named)

    def where(self, loc: Loc, *, missing: bool) -> Where:
        """The place of one value; that of a missing one is where the values would be."""
        found = self.document.where((*self.at, *loc), missing=missing)
        return found if self.values is not None else replace(found, line=self.whose.line)

    def read_as(self, loc: Loc) -> str | None:
        """The reading that YAML has of an unquoted value, as a phrase."""
        return self.document.read_as.get((*self.at, *loc))


def make_settings(kind: type, given: Given, project: Project, report: Mistakes) -> object | None:
    """An instance of the settings class that can be copied, or None after findings."""
    made = make(kind, given, project, report)
    copied = attempt(lambda: deepcopy(made))
    if isinstance(copied, Crash):
        report.error(
            ConfigCode.SETTINGS,
            given.whose,
            f"{kind.__qualname__} cannot be copied, and each invocation gets settings of its own: "
            f"{project.explain(copied)}",
            "what handlers share, such as a client or a lock, belongs into the lifespan",
        )
        return None
    return made


def make(kind: type, given: Given, project: Project, report: Mistakes) -> object | None:
    """An instance of a class of the project's, or None after findings.

    Texts become numbers, dates and so on where the fields ask for it, since a value from the environment is
    always text. Unknown keys are refused in nested dataclasses too.
    """
    unknown = _strange(kind, given)
    for key in unknown:
        report.error(ConfigCode.KEY, given.where((key,), missing=False), *_unknown(key, _fields_at(kind, ())))
    if unknown:
        return None
    made = attempt(lambda: validated(kind, dict(given.values or {})))
    if not isinstance(made, Crash):
        return made
    if isinstance(made.error, ValidationError):
        for fault in made.error.errors(include_url=False, include_input=False):
            _report(kind, given, fault, report)
    else:
        problem = (
            "has fields that cannot be checked" if isinstance(made.error, PydanticUserError) else "failed"
        )
        message = f"{kind.__qualname__} {problem}: {project.explain(made)}"
        report.error(ConfigCode.SETTINGS, given.whose, message)
    return None


def _strange(kind: type, given: Given) -> list[str]:
    """The keys that a model does not have: unlike a dataclass, it may be made to let them pass."""
    known = _fields_at(kind, ())
    return [key for key in given.values or () if key not in known] if issubclass(kind, BaseModel) else []


def _unknown(key: str, known: Sequence[str]) -> tuple[str, str]:
    return f'unknown key "{key}"', did_you_mean(key, known)


def validated(kind: type, data: dict[str, Any]) -> object:
    """An instance of a settings class. Raises what the class raises, and pydantic's ValidationError.

    The class stands in a tuple because a dataclass by itself takes no configuration from outside.
    """
    config = ConfigDict(extra="forbid", hide_input_in_errors=True)
    (made,) = TypeAdapter(tuple[kind], config=config).validate_python((data,))  # type: ignore[valid-type]
    return cast("object", made)


def _report(kind: type, given: Given, fault: Any, report: Mistakes) -> None:
    loc = fault["loc"][1:]
    where = given.where(loc, missing="missing" in fault["type"])
    if fault["type"] in _EXTRA:
        report.error(ConfigCode.KEY, where, *_unknown(str(loc[-1]), _fields_at(kind, loc[:-1])))
        return
    report.error(
        code_of(fault), where, *describe(fault, given.read_as(loc), given.document.said((*given.at, *loc)))
    )


_EXTRA = ("unexpected_keyword_argument", "extra_forbidden")
"""The words of pydantic for an unknown key of a dataclass and of a model."""


def _fields_at(kind: Any, loc: Loc) -> list[str]:
    """The keys of the dataclass or model at a place inside the settings, as far as it can be found."""
    for part in loc:
        if isinstance(part, str):
            hint = typing.get_type_hints(kind).get(part)
            kind = next((k for k in (hint, *typing.get_args(hint)) if has_fields(k)), None)
        if kind is None:
            return []
    return fields_of(kind)


def has_fields(kind: object) -> bool:
    """True for a class whose fields can be settings: a dataclass or a model of pydantic."""
    return isinstance(kind, type) and (dataclasses.is_dataclass(kind) or issubclass(kind, BaseModel))


def fields_of(kind: Any) -> list[str]:
    """The fields of such a class, as they are written in YAML."""
    if issubclass(kind, BaseModel):
        return keys_of(kind)
    return [field.name for field in dataclasses.fields(kind) if field.init]
