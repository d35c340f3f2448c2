"""The tools of the suite as an agent is shown them: names, descriptions and JSON schemas.

Owns their derivation from signatures and docstrings. Refuses to run anything.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import docstring_parser
from pydantic import ConfigDict, Field, create_model

from benchmarks.outside.services import (
    base,
    browser,
    calendar,
    clock,
    drive,
    hub,
    mail,
    payments,
    shell,
    shop,
)
from benchmarks.outside.world import World


@dataclass(frozen=True)
class Tool:
    """One tool. ``domain`` is the service that it belongs to."""

    name: str
    domain: str
    description: str
    schema: dict[str, Any]


def catalogue() -> dict[str, Tool]:
    """Every tool by name."""
    found = {}
    for domain, service in World().services().items():
        for name, function in base.tools_of(service).items():
            told = docstring_parser.parse(inspect.getdoc(function) or "")
            helps = {parameter.arg_name: parameter.description for parameter in told.params}
            fields: dict[str, Any] = {}
            for key, parameter in inspect.signature(function, eval_str=True).parameters.items():
                default = ... if parameter.default is parameter.empty else parameter.default
                fields[key] = (parameter.annotation, Field(default, description=helps[key]))
            model = create_model(name, __config__=ConfigDict(extra="forbid"), **fields)
            text = "\n".join(part for part in (told.short_description, told.long_description) if part)
            found[name] = Tool(name, domain, text, model.model_json_schema())
    return found


DOCUMENTED = (browser, calendar, clock, drive, hub, mail, payments, shell, shop)
"""The modules whose docstrings are the documentation that the general policy was written from."""


def main() -> None:
    """Prints the documentation of all tools."""
    for tool in catalogue().values():
        print(f"{tool.domain}  {tool.name}\n    {tool.description}")
        for key, value in tool.schema["properties"].items():
            print(f"      {key}: {value['description']}")


if __name__ == "__main__":
    main()
