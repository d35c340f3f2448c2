"""Codes for mistakes of a configuration, each with its remedy: a mistake cannot be made without one."""

from __future__ import annotations

from enum import Enum
from typing import Final

from agentserver.remedies.remedy import Remedy

_LINE = "File, line and path of the finding; the suggestion in parentheses is the likely correction."


class ConfigCode(Enum):
    """The kind of a mistake, and its explanation. The name that users see is that of the entry."""

    NAME = Remedy(
        "config",
        "name",
        "A name means nothing that the organism has.",
        _LINE,
        "Correct its spelling, or declare what it names.",
    )
    KEY = Remedy(
        "config",
        "key",
        "The file has a key that does not exist there, or has one twice.",
        (
            "File, line and path of the finding; the suggestion in parentheses is the likely "
            'correction. The page "Keys of organism.yaml" lists all.'
        ),
        "Use the key that is suggested, or take it out.",
    )
    TWICE = Remedy(
        "config",
        "twice",
        "Two things have one name.",
        _LINE,
        "Rename one of them.",
    )
    REPEATED = Remedy(
        "config",
        "repeated",
        "A list, or the files together, say one thing twice.",
        _LINE,
        "Say it in one place.",
    )
    SHARED = Remedy(
        "config",
        "shared",
        "Several listeners take one payload class, so that a message has to name one of them.",
        _LINE,
        "Give each message a `to`, or let all of them say `broadcast: true`.",
    )
    MISSING = Remedy(
        "config",
        "missing",
        "A value that is needed is not there.",
        _LINE,
        "Write it.",
    )
    VALUE = Remedy(
        "config",
        "value",
        "A value has another type or form than its key takes.",
        (
            "File, line and path of the finding; the suggestion in parentheses is the likely "
            "correction. YAML reads `no`, `1.0` and `08:00` as something else than text."
        ),
        "Write what was expected; quote what is to be text.",
    )
    FILE = Remedy(
        "config",
        "file",
        "A file cannot be read.",
        _LINE,
        "Correct the path (relative to the project), the rights or the encoding.",
    )
    YAML = Remedy(
        "config",
        "yaml",
        "The file is not written as YAML wants it.",
        "File and line of the finding: the mistake is there, or in the line above.",
        (
            "Indent by spaces, keys of one thing in one column; quote text with `: ` in it, or `*`, "
            "`&`, `@` in front."
        ),
    )
    PAYLOAD = Remedy(
        "config",
        "payload",
        "A payload class has a field that XML cannot carry as it is declared.",
        "File and line of the class, and its field, in the finding.",
        ("Declare the type that the finding suggests; `agentserver schemas` shows what the others became."),
    )
    HANDLER = Remedy(
        "config",
        "handler",
        "The dotted path leads to something that is no handler.",
        _LINE,
        "Name an `async def` of two parameters, payload and metadata.",
    )
    CLASS = Remedy(
        "config",
        "class",
        "The dotted path leads to something that is no payload, settings or guard class.",
        _LINE,
        "Put `@xmlify` over a frozen dataclass; settings and guards are frozen dataclasses.",
    )
    IMPORT = Remedy(
        "config",
        "import",
        "A module of the project cannot be imported.",
        _LINE,
        'Run `python -c "import MODULE"` in the project; install what it misses.',
    )
    AGENT = Remedy(
        "config",
        "agent",
        "A key of an agent stands at a listener with a handler, or the other way round.",
        _LINE,
        "A listener has `handler` or `model`; `agent` with bounds belongs to `model`.",
    )
    PEERS = Remedy(
        "config",
        "peers",
        "An agent names no peers, so that its model has no tools.",
        _LINE,
        "List the listeners that it may call under `peers`, or write `peers: []`.",
    )
    TOOL = Remedy(
        "config",
        "tool",
        "A payload or a peer cannot be offered to a model as a tool.",
        _LINE,
        "Declare the payload with `@xmlify`; shorten the name of the listener.",
    )
    ROOM = Remedy(
        "config",
        "room",
        "A thread's storage has no room for the history of an agent.",
        _LINE,
        "Raise `limits.storage`, or lower `history` under the listener's `agent`.",
    )
    QUARANTINE = Remedy(
        "config",
        "quarantine",
        "A quarantined listener could tell more than it may.",
        _LINE,
        "Let it answer with booleans, enumerations and bounded numbers, and take its `peers` out.",
    )
    SECRET = Remedy(
        "config",
        "secret",
        "A key or a variable of the environment is not set, or stands in the file.",
        _LINE,
        "Set the variable; write `${NAME}` in the YAML.",
    )
    SETTINGS = Remedy(
        "config",
        "settings",
        "Settings do not fit their class.",
        _LINE,
        "Correct the field; what cannot be copied belongs into the lifespan.",
    )
    LIFESPAN = Remedy(
        "config",
        "lifespan",
        "The lifespan is no async context manager.",
        _LINE,
        "Decorate it with `contextlib.asynccontextmanager`; it takes no arguments.",
    )
    LLM = Remedy(
        "config",
        "llm",
        "Models, backends or budgets contradict each other.",
        _LINE,
        ("Follow the suggestion: a price for what has a budget in money, a script for `provider: scripted`."),
    )
    MCP = Remedy(
        "config",
        "mcp",
        "A tool of an MCP server is not locked, or is not what was locked.",
        "`agentserver mcp diff`.",
        "Read the change, then `agentserver mcp lock`.",
    )
    INTENTS = Remedy(
        "config",
        "intents",
        "An intent contradicts a payload class or another intent.",
        _LINE,
        "Keep `params` or `payload_class`; give each intent a name of its own.",
    )
    DOOR = Remedy(
        "config",
        "door",
        "The address, TLS and proxy of `http` do not fit together.",
        _LINE,
        "Name `public_url`; `behind_proxy: true`, or `tls`.",
    )
    PROVENANCE = Remedy(
        "config",
        "provenance",
        "Two declarations about a listener contradict each other.",
        _LINE,
        "Keep one of them; a source is no sink at once.",
    )
    EXTRA = Remedy(
        "config",
        "extra",
        "A key needs a part of the distribution that is not installed.",
        "The finding names the extra, and the command that installs it.",
        "Install the extra, or take the key out.",
    )
    ENGINE = Remedy(
        "config",
        "engine",
        "The database of `engine` is away, or keeps less than a server promises.",
        "`agentserver engine status`.",
        (
            "Start it, or correct its address; name standbys that confirm commits in `synchronous_standby_names`; "
            "`durability: relaxed`, where a loss is acceptable."
        ),
    )
    GUARD = Remedy(
        "config",
        "guard",
        "A guard of the program fails, or has something against the organism.",
        _LINE,
        "Correct the guard, or what it objects to; the message is its own.",
    )
    DEADLINE = Remedy(
        "config",
        "deadline",
        "The deadline of an agent ends a request to its models before they may answer.",
        _LINE,
        "Leave `deadline` out, so that it is derived, or lower `timeout` of the backends.",
    )
    ISOLATION = Remedy(
        "config",
        "isolation",
        "A listener asks for a process of its own, and its keys do not fit that.",
        _LINE,
        (
            "Follow the suggestion; the server imports nothing of such a handler, so that its classes "
            "are named in the YAML."
        ),
    )
    RELOAD = Remedy(
        "config",
        "reload",
        "A reload would leave objects of classes that it replaces, or register something twice.",
        (
            'The name and the module in the finding; the page "Running it in production" says what a '
            "reload keeps."
        ),
        "Restart the server.",
    )
    MORE = Remedy(
        "config",
        "more",
        "There are more mistakes than are shown.",
        "The mistakes before it.",
        "Correct those first.",
    )


REMEDIES: Final = tuple(code.value for code in ConfigCode)
"""Entries of the family config."""
