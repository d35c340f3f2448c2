"""Remedies for mistakes of a configuration, found by a part of their text: ``check`` gives them no codes."""

from __future__ import annotations

from typing import Final

from agentserver.remedies.remedy import Remedy

_LINE = "File, line and path of the finding; the suggestion in parentheses is the likely correction."

REMEDIES: Final = (
    Remedy(
        "config",
        "name",
        "A name means nothing that the organism has.",
        _LINE,
        "Correct its spelling, or declare what it names.",
        fragments=(
            "unknown listener",
            "there is no listener",
            "unknown model",
            "unknown backend",
            "means no listener",
            "there is no listener",
            "means no field",
            "no backend has the model",
            "has no tool",
            "no such receiver",
            "is no @xmlify class of this organism",
        ),
    ),
    Remedy(
        "config",
        "key",
        "The file has a key that does not exist there, or has one twice.",
        (
            "File, line and path of the finding; the suggestion in parentheses is the likely correction. The "
            'page "Keys of organism.yaml" lists all.'
        ),
        "Use the key that is suggested, or take it out.",
        fragments=(
            "unknown key",
            "duplicate key",
            "is already set",
            "the merge key",
            "a key must be text",
            "the key ",
        ),
    ),
    Remedy(
        "config",
        "twice",
        "Two things have one name.",
        _LINE,
        "Rename one of them.",
        fragments=(
            "duplicate name",
            "duplicate server",
            "duplicate tool",
            "duplicate listener",
            "is named twice",
            "is exposed already",
            "already",
            "is the name of a guard of the server",
            "would be one tool of the model",
        ),
    ),
    Remedy(
        "config",
        "missing",
        "A value that is needed is not there.",
        _LINE,
        "Write it.",
        fragments=(
            "is missing",
            "at least one listener is needed",
            "needs the field that holds the text",
            "a mapping with",
            "has no endpoint",
        ),
    ),
    Remedy(
        "config",
        "value",
        "A value has another type or form than its key takes.",
        (
            "File, line and path of the finding; the suggestion in parentheses is the likely correction. YAML"
            " reads `no`, `1.0` and `08:00` as something else than text."
        ),
        "Write what was expected; quote what is to be text.",
        fragments=(
            "was expected",
            "yaml reads this",
            "is no address",
            "is neither a .yaml file",
        ),
    ),
    Remedy(
        "config",
        "file",
        "A file cannot be read.",
        _LINE,
        "Correct the path (relative to the project), the rights or the encoding.",
        fragments=(
            "there is no such file",
            "cannot be read",
            "cannot read",
            "is not utf-8",
            "is larger than",
            "is not yaml",
        ),
    ),
    Remedy(
        "config",
        "handler",
        "The dotted path leads to something that is no handler.",
        _LINE,
        "Name an `async def` of two parameters, payload and metadata.",
        fragments=(
            "is no handler",
            "must be declared with async def",
            "is not async",
            "must take exactly two",
            "must return its responses",
            "annotates its",
            "annotation",
            "says that it returns",
            "is not a function",
            "returns bytes",
        ),
    ),
    Remedy(
        "config",
        "class",
        "The dotted path leads to something that is no payload, settings or guard class.",
        _LINE,
        "Put `@xmlify` over a frozen dataclass; settings and guards are frozen dataclasses.",
        fragments=(
            "is not @xmlify",
            "is not a class",
            "is not a dataclass",
            "belongs to the system",
            "cannot be a payload",
            "is none",
            "no class",
        ),
    ),
    Remedy(
        "config",
        "import",
        "A module of the project cannot be imported.",
        _LINE,
        'Run `python -c "import MODULE"` in the project; install what it misses.',
        fragments=(
            "there is no module",
            "cannot be imported",
            "there is no name",
            "no module named",
        ),
    ),
    Remedy(
        "config",
        "agent",
        "A key of an agent stands at a listener with a handler, or the other way round.",
        _LINE,
        "A listener has `handler` or `model`; `agent` with bounds belongs to `model`.",
        fragments=(
            "a listener has a handler or a model",
            "belong to a listener with a model",
            "belongs to a listener with a model",
            "has a longer name than models take",
            "no json schema for a model",
            "limits.storage",
        ),
    ),
    Remedy(
        "config",
        "quarantine",
        "A quarantined listener could tell more than it may.",
        _LINE,
        "Let it answer with booleans, enumerations and bounded numbers, and take its `peers` out.",
        fragments=(
            "quarantined",
            "can tell anything",
        ),
    ),
    Remedy(
        "config",
        "secret",
        "A key or a variable of the environment is not set, or stands in the file.",
        _LINE,
        "Set the variable; write `${NAME}` in the YAML.",
        fragments=(
            "environment has no variable",
            "a key is never written into the file",
            "shows a value from ${...}",
        ),
    ),
    Remedy(
        "config",
        "settings",
        "Settings do not fit their class.",
        _LINE,
        "Correct the field; what cannot be copied belongs into the lifespan.",
        fragments=(
            "cannot be copied",
            "settings need a class",
            "fields that cannot be checked",
        ),
    ),
    Remedy(
        "config",
        "lifespan",
        "The lifespan is no async context manager.",
        _LINE,
        "Decorate it with `contextlib.asynccontextmanager`; it takes no arguments.",
        fragments=(
            "must return an async context manager",
            "must be callable without arguments",
        ),
    ),
    Remedy(
        "config",
        "llm",
        "Models, backends or budgets contradict each other.",
        _LINE,
        "Follow the suggestion: a price for what has a budget in money, a script for `provider: scripted`.",
        fragments=(
            "belongs to provider: scripted",
            "a scripted backend asks nobody",
            "no price is known",
            "no call will ever go out",
        ),
    ),
    Remedy(
        "config",
        "mcp",
        "A tool of an MCP server is not locked, or is not what was locked.",
        "`agentserver mcp diff`.",
        "Read the change, then `agentserver mcp lock`.",
        fragments=(
            "another form than",
            "nothing is known of the server's tools",
            "json as text",
            "as a listener its name",
        ),
    ),
    Remedy(
        "config",
        "intents",
        "An intent contradicts a payload class or another intent.",
        _LINE,
        "Keep `params` or `payload_class`; give each intent a name of its own.",
        fragments=("stands beside payload_class",),
    ),
    Remedy(
        "config",
        "door",
        "The address, TLS and proxy of `http` do not fit together.",
        _LINE,
        "Name `public_url`; `behind_proxy: true`, or `tls`.",
        fragments=(
            "nothing here speaks tls",
            "clients come by tls",
        ),
    ),
    Remedy(
        "config",
        "provenance",
        "Two declarations about a listener contradict each other.",
        _LINE,
        "Keep one of them; a source is no sink at once.",
        fragments=(
            "the policy says otherwise",
            "a listener cannot be",
            "fixes no plan",
        ),
    ),
    Remedy(
        "config",
        "broker",
        "The settings of a broker, or of the engine that keeps conversations at it, cannot stand together.",
        _LINE,
        "Keep one of `engine:` and `journal:`; shorten the name that is said to be too long.",
        fragments=(
            "are both there",
            "is too long for a broker",
        ),
    ),
    Remedy(
        "config",
        "extra",
        "A key needs a part of the distribution that is not installed.",
        "The finding names the extra, and the command that installs it.",
        "Install the extra, or take the key out.",
        fragments=("needs the extra",),
    ),
)
"""Entries of the family config."""
