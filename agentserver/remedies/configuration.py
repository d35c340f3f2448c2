"""Codes for mistakes of a configuration, each with its remedy: a mistake cannot be made without one."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Remedy(NamedTuple):
    """The help for one refusal or finding.

    Args:
        family: a key of ``FAMILIES``.
        name: the code, as the server has it.
        means: what happened, in one sentence.
        look: where to look.
        change: the change that helps.
        wording: another wording of the message, or empty.
    """

    family: str
    name: str
    means: str
    look: str
    change: str
    wording: str = ""

    def __str__(self) -> str:
        return f"{self.family}:{self.name}"


_LINE = "File, line and path of the finding; the suggestion in parentheses is the likely correction."


class ConfigCode(Enum):
    """The kind of a mistake, and its explanation. The name that users see is that of the entry."""

    NAME = Remedy(
        "config",
        "name",
        "A name refers to nothing in the organism.",
        _LINE,
        "Correct its spelling, or declare it.",
    )
    KEY = Remedy(
        "config",
        "key",
        "The file has an unknown or repeated key.",
        (
            "File, line and path of the finding; the suggestion in parentheses is the likely "
            'correction. The page "Keys of organism.yaml" lists all keys.'
        ),
        "Use the suggested key, or remove it.",
    )
    TWICE = Remedy(
        "config",
        "twice",
        "Two entries have the same name.",
        _LINE,
        "Rename one of them.",
    )
    REPEATED = Remedy(
        "config",
        "repeated",
        "A list or an included file repeats an entry.",
        _LINE,
        "Keep one of them.",
    )
    SHARED = Remedy(
        "config",
        "shared",
        "Several listeners accept one payload class, so a message has to name one of them.",
        _LINE,
        "Set `to` in each message, or set `broadcast: true` on all of them.",
    )
    MISSING = Remedy(
        "config",
        "missing",
        "A required value is missing.",
        _LINE,
        "Add it.",
    )
    FLOW = Remedy(
        "config",
        "flow",
        "A flow does something that may differ when it is run again from its record.",
        "File and line of the function; the suggestion in parentheses is the likely correction.",
        "Use `now()`, `random()`, `uuid()` and `sleep()` of `agentserver.flow`, put the call into `once`, or sort "
        "the set.",
    )
    CONDITION = Remedy(
        "config",
        "condition",
        "A condition of an approval does not fit the payload of its listener.",
        _LINE,
        "Name a field of the payload class, and values of its type.",
    )
    VALUE = Remedy(
        "config",
        "value",
        "A value does not have the type or form of its key.",
        (
            "File, line and path of the finding; the suggestion in parentheses is the likely "
            "correction. YAML does not read `no`, `1.0` and `08:00` as text."
        ),
        "Write the expected value; quote text.",
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
        "The file is not valid YAML.",
        "File and line of the finding: the mistake is in that line or the one above.",
        (
            "Indent with spaces, keys of one mapping in one column; quote text with `: ` in it, or `*`, "
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
        "The dotted path does not name a handler.",
        _LINE,
        "Name an `async def` of two parameters, payload and metadata, or with typed parameters of its own.",
    )
    CLASS = Remedy(
        "config",
        "class",
        "The dotted path does not name a payload, settings or guard class.",
        _LINE,
        "Put `@xmlify` over a frozen dataclass; settings and guards are frozen dataclasses.",
    )
    IMPORT = Remedy(
        "config",
        "import",
        "A module of the project cannot be imported.",
        _LINE,
        'Run `python -c "import MODULE"` in the project; install the missing package.',
    )
    AGENT = Remedy(
        "config",
        "agent",
        "A listener with a handler has a key of an agent, or an agent has one of a handler.",
        _LINE,
        "A listener has `handler` or `model`; `agent` with bounds belongs to `model`.",
    )
    PEERS = Remedy(
        "config",
        "peers",
        "An agent has no peers, so its model has no tools.",
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
        "A quarantined listener could send more information than it may.",
        _LINE,
        "Let it answer with booleans, enumerations and bounded numbers, and remove its `peers`.",
    )
    SECRET = Remedy(
        "config",
        "secret",
        "An environment variable is not set, or a secret is written into the file.",
        _LINE,
        "Set the variable; write `${NAME}` in the YAML.",
    )
    SETTINGS = Remedy(
        "config",
        "settings",
        "Settings do not fit their class.",
        _LINE,
        "Correct the field; move values that cannot be copied to the lifespan.",
    )
    LIFESPAN = Remedy(
        "config",
        "lifespan",
        "The lifespan is not an async context manager.",
        _LINE,
        "Decorate it with `contextlib.asynccontextmanager`; it takes no arguments.",
    )
    LLM = Remedy(
        "config",
        "llm",
        "Models, backends or budgets contradict each other.",
        _LINE,
        (
            "Follow the suggestion: a price for a model with a budget in money, a script for `provider: scripted`."
        ),
    )
    MCP = Remedy(
        "config",
        "mcp",
        "A tool of an MCP server is not locked, or differs from its lock.",
        "`agentserver mcp diff`.",
        "Read the change, then `agentserver mcp lock`.",
    )
    OPENAI = Remedy(
        "config",
        "openai",
        "A listener cannot be a model of chat clients: its payload does not consist of one text, or there is no door.",
        _LINE,
        "Name its text field in `openai:`, give the other fields defaults, or remove the key.",
    )
    INTENTS = Remedy(
        "config",
        "intents",
        "An intent contradicts a payload class or another intent.",
        _LINE,
        "Keep `params` or `payload_class`; name each intent differently.",
    )
    DOOR = Remedy(
        "config",
        "door",
        "The address, TLS and proxy of `http` contradict each other.",
        _LINE,
        "Set `public_url`; `behind_proxy: true`, or `tls`.",
    )
    PROVENANCE = Remedy(
        "config",
        "provenance",
        "Two declarations about a listener contradict each other.",
        _LINE,
        "Keep one of them; a source cannot be a sink.",
    )
    EXTRA = Remedy(
        "config",
        "extra",
        "A key needs a part of the distribution that is not installed.",
        "The finding names the extra, and the command that installs it.",
        "Install the extra, or remove the key.",
    )
    ENGINE = Remedy(
        "config",
        "engine",
        "The database of `engine` is unreachable, or less durable than a server promises.",
        "`agentserver engine status`.",
        (
            "Start it, or correct its address; name standbys that confirm commits in `synchronous_standby_names`; "
            "`durability: relaxed`, where a loss is acceptable."
        ),
    )
    PENDING = Remedy(
        "config",
        "pending",
        "A message or flow that waits in the journal could not continue with this code, its classes or its schemas.",
        "The conversation that the message names: `agentserver trace CONVERSATION`.",
        (
            "Keep the old class next to the new version, or branch by `changed`, until nothing of before waits; "
            "or deploy when the conversation has ended."
        ),
    )
    GUARD = Remedy(
        "config",
        "guard",
        "A guard of the program fails, or rejects the organism.",
        _LINE,
        "Correct the guard, or the part of the organism that it rejects; the message comes from the guard.",
    )
    DEADLINE = Remedy(
        "config",
        "deadline",
        "The deadline of an agent is shorter than the timeout of its models.",
        _LINE,
        "Omit `deadline`, so that it is derived, or lower `timeout` of the backends.",
    )
    ISOLATION = Remedy(
        "config",
        "isolation",
        "The keys of an isolated listener contradict its isolation.",
        _LINE,
        (
            "Follow the suggestion; the server does not import an isolated handler, so its classes "
            "have to be named in the YAML."
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
        "There are more mistakes than the report shows.",
        "The mistakes before it.",
        "Correct those first.",
    )
