"""Pydantic model of a policy's keys: checks, help for editors and error messages.

The one description of the keys, for policy files, the organism's ``provenance:`` and editors. It knows no YAML and no
line numbers.
"""

from __future__ import annotations

from difflib import get_close_matches
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    PlainValidator,
    Tag,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from agentserver.provenance.confidentiality.readers import is_sound
from agentserver.provenance.evidence.authority import DestinationPattern
from agentserver.provenance.evidence.labels import Mode, Role, Standing
from agentserver.provenance.evidence.layouts import TextLayout
from agentserver.provenance.policy.declarations import Effect, PlanSource, Policy, Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pydantic_core import ErrorDetails

    Loc: TypeAlias = tuple[str | int, ...]

E = TypeVar("E", bound=Enum)

NAMES, RULES, WORD, ENTRY, KEY = "[names]", "[rules]", "[word]", "[entry]", "[key]"
"""Parts of pydantic's way to a value that are not written in the document."""

_DEFAULT = Policy()
_UNSET: Any = None

_UNWRITTEN = frozenset({NAMES, RULES, WORD, ENTRY, KEY})


def _read_text(value: Any) -> str:
    """Read a text. Numbers are converted."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value.strip():
        raise PydanticCustomError("no_text", "must be a text")
    return value


def _check_place(value: str) -> str:
    """Check that a text can match a destination. Otherwise it would allow, or deny, nothing."""
    if not DestinationPattern(value).sound:
        raise PydanticCustomError("no_place", "{value}", {"value": value})
    return value


def _check_reader(value: str) -> str:
    """Check that an entry can match a receiver."""
    if not is_sound(value):
        raise PydanticCustomError("no_reader", "{value}", {"value": value})
    return value


_FLAGS = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}


def _read_flag(value: Any) -> bool:
    known = value if isinstance(value, bool) else _FLAGS.get(_read_text(value).lower())
    if known is None:
        raise PydanticCustomError("no_flag", "{value}", {"value": str(value)})
    return known


_DIGITS = 18
"""Maximum digits of a number in a policy."""


def _read_count(value: Any) -> int:
    digits = _read_text(value).replace("_", "")
    if not digits.isdecimal() or len(digits) > _DIGITS or int(digits) == 0:
        raise PydanticCustomError("no_count", "{value}", {"value": str(value)})
    return int(digits)


def _build_words(kind: type[Enum]) -> dict[str, Any]:
    return {member.name.lower(): member for member in kind}


def _make_word_reader(kind: type[E], noun: str) -> Callable[[Any], E]:
    """Make a reader that turns one word into a member of an enum."""
    known: dict[str, E] = _build_words(kind)

    def read(value: Any) -> E:
        if isinstance(value, kind):
            return value
        word = "off" if value is False else _read_text(value)
        if word not in known:
            raise PydanticCustomError("no_word", "{told}", {"told": _describe_unknown(word, noun, known)})
        return known[word]

    return read


def _describe_unknown(word: str, noun: str, known: Iterable[str]) -> str:
    message = f"unknown rule '{word}'" if noun == "rule" else f"'{word}' is no {noun}"
    return message + _suggest_name(word, known)


def _suggest_name(name: str, known: Iterable[str]) -> str:
    names = list(known)
    near = get_close_matches(name, names, 1)
    return f"; did you mean '{near[0]}'?" if near else f"; known are {', '.join(names)}"


def _make_enum_schema(kind: type[Enum]) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "enum": list(_build_words(kind))})


_BOOLEAN = WithJsonSchema({"anyOf": [{"type": "boolean"}, {"type": "string", "enum": list(_FLAGS)}]})
_POSITIVE = WithJsonSchema(
    {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": "^[0-9_]*[1-9][0-9_]*$"}]}
)


Text: TypeAlias = Annotated[
    str, PlainValidator(_read_text), WithJsonSchema({"type": ["string", "number"], "minLength": 1})
]


def _check_locale(value: str) -> str:
    from agentserver.provenance.evidence.lexicon import list_conventions

    if list_conventions(value) is None:
        raise ValueError(f"'{value}' is no locale of CLDR; write one as de or en-GB")
    return value


Places: TypeAlias = list[Annotated[Text, AfterValidator(_check_place)]]
ReaderList: TypeAlias = list[Annotated[Text, AfterValidator(_check_reader)]]
Flag: TypeAlias = Annotated[bool, PlainValidator(_read_flag), _BOOLEAN]
Count: TypeAlias = Annotated[int, PlainValidator(_read_count), _POSITIVE]
ModeWord: TypeAlias = Annotated[
    Mode, PlainValidator(_make_word_reader(Mode, "mode")), _make_enum_schema(Mode)
]
PlanWord: TypeAlias = Annotated[
    PlanSource, PlainValidator(_make_word_reader(PlanSource, "plan")), _make_enum_schema(PlanSource)
]
StandingWord: TypeAlias = Annotated[
    Standing, PlainValidator(_make_word_reader(Standing, "standing")), _make_enum_schema(Standing)
]
RoleWord: TypeAlias = Annotated[
    Role, PlainValidator(_make_word_reader(Role, "role")), _make_enum_schema(Role)
]
RuleWord: TypeAlias = Annotated[
    Rule, PlainValidator(_make_word_reader(Rule, "rule")), _make_enum_schema(Rule)
]
EffectWord: TypeAlias = Annotated[
    Effect, PlainValidator(_make_word_reader(Effect, "effect")), _make_enum_schema(Effect)
]
Effects: TypeAlias = dict[RuleWord, EffectWord]


class _Entry(BaseModel):
    """Base of entries: no unknown keys, no changes, no values in error messages."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


def _check_glue(value: str) -> str:
    """Check that no letter or digit joins parts: every text would consist of parts."""
    if any(char.isalnum() or char.isspace() for char in value):
        raise ValueError("'glue' must hold signs alone, such as / or -")
    return value


class ArgumentEntry(_Entry):
    """Argument of a sink."""

    role: RoleWord = Field(
        description="What the argument decides: who receives, what to act on, what to say."
    )
    accepts: list[Text] = Field(
        default_factory=list,
        description="Fields, as listener.field, whose values authorise this argument: as records, or in documents that "
        "the trusted query named; record is the record that a selector of the same call names.",
    )
    id: Text = Field(
        default="",
        description="The kind of thing that it selects: only a field of the same kind authorises it.",
    )
    values: list[Text] = Field(
        default_factory=list, description="Values that need no authority, such as a default."
    )
    glue: Annotated[Text, AfterValidator(_check_glue)] = Field(
        default="",
        description="Characters between the parts of a composed choice, such as / in owner/repo. It needs no origin as "
        "a whole if the request or a declared record has each part.",
    )


Argument: TypeAlias = Annotated[
    Annotated[RoleWord, Tag(WORD)] | Annotated[ArgumentEntry, Tag(ENTRY)],
    Discriminator(lambda value: ENTRY if isinstance(value, dict | ArgumentEntry) else WORD),
]


class FieldEntry(_Entry):
    """Field of a source."""

    standing: StandingWord = Field(
        default=Standing.RECORD, description="Worth of the field: prose, record, directory or own."
    )
    id: Text = Field(default="", description="The kind of thing that its values identify.")


FieldWorth: TypeAlias = Annotated[
    Annotated[StandingWord, Tag(WORD)] | Annotated[FieldEntry, Tag(ENTRY)],
    Discriminator(lambda value: ENTRY if isinstance(value, dict | FieldEntry) else WORD),
]


class SinkEntry(_Entry):
    """Listener with consequences."""

    arguments: dict[Text, Argument] = Field(
        default_factory=dict,
        description="By field: its role, or a mapping with its role and accepted fields.",
    )
    mode: ModeWord = Field(default=_UNSET, description="Its own mode; that of the policy if left out.")
    effects: Effects = Field(default_factory=dict, description="By rule: the effect of breaking it.")


Sinks: TypeAlias = Annotated[
    Annotated[list[Text], Tag(NAMES)] | Annotated[dict[Text, SinkEntry | None], Tag(RULES)],
    Discriminator(lambda value: NAMES if isinstance(value, list) else RULES),
]


ReaderEntry: TypeAlias = Annotated[
    Annotated[ReaderList, Tag(NAMES)] | Annotated[dict[Text, ReaderList], Tag(RULES), Field(min_length=1)],
    Discriminator(lambda value: NAMES if isinstance(value, list) else RULES),
]


LayoutWord: TypeAlias = Annotated[
    TextLayout, PlainValidator(_make_word_reader(TextLayout, "layout")), _make_enum_schema(TextLayout)
]
LayoutEntry: TypeAlias = Annotated[
    Annotated[LayoutWord, Tag(WORD)] | Annotated[dict[Text, LayoutWord], Tag(ENTRY), Field(min_length=1)],
    Discriminator(lambda value: ENTRY if isinstance(value, dict) else WORD),
]


class PolicyEntry(_Entry):
    """Rules for the origins of values in calls with consequences."""

    mode: ModeWord = Field(
        default=Mode.AUDIT,
        description="Treatment of calls that a rule refuses: audit, confirm or enforce.",
    )
    sources: list[Text] = Field(
        default_factory=list,
        description="Listeners whose output is untrusted, as names or patterns.",
    )
    sinks: Sinks = Field(
        default_factory=list,
        description="Listeners with consequences: a list of names, or a mapping of names to rules.",
    )
    trusted: list[Text] = Field(default_factory=list, description="Listeners whose output is trusted.")
    relays: list[Text] = Field(
        default_factory=list,
        description="Listeners that repeat others, so that their output vouches for nothing.",
    )
    inert: list[Text] = Field(
        default_factory=list,
        description="Listeners without consequences, whose output is made from their arguments only.",
    )
    schemas: list[Text] = Field(
        default_factory=list,
        description="Tools of MCP servers whose locked schemas count where they loosen: times by format, and options "
        "by enumeration. What a schema tightens counts without an entry.",
    )
    fields: dict[Text, dict[Text, FieldWorth]] = Field(
        default_factory=dict, description="By listener and field: the worth of a source's field."
    )
    readers: dict[Text, ReaderEntry] = Field(
        default_factory=dict,
        description="By listener, or by listener and field: who may be given its content, as principal, "
        "directory:listener or a destination. An empty list means no receiver at all.",
    )
    layouts: dict[Text, LayoutEntry] = Field(
        default_factory=dict,
        description="By listener, or by listener and field: the layout of a text whose parts are fields. Declare it "
        "only for text of a program that escapes its input: a stranger's line breaks must not start new lines.",
    )
    allow: Places = Field(default_factory=list, description="Destinations that need no authority.")
    deny: Places = Field(default_factory=list, description="Destinations that may never receive.")
    query_authorises: Flag = Field(
        default=_DEFAULT.query_authorises,
        description="Whether a destination that the principal named may receive.",
    )
    plan: PlanWord = Field(
        default=_DEFAULT.plan,
        description="Use of plans. optional: a planner's plan is applied. required: without a plan no "
        "sink runs. confirmed: as required, and a person confirms the plan once. off: plans are ignored.",
    )
    strict: Flag = Field(
        default=_DEFAULT.strict, description="Whether every sink is refused once untrusted text was read."
    )
    follow_links: Flag = Field(
        default=_DEFAULT.follow_links,
        description="Whether a document that the principal named by a link authorises the links in it.",
    )
    locale: Annotated[str, AfterValidator(_check_locale)] = Field(
        default=_DEFAULT.locale,
        description="Locale in which the principal writes ambiguous numbers and days, as de or en-GB. "
        "Left out, 1.234 and 03/04/2027 authorise nothing.",
    )
    effects: Effects = Field(default_factory=dict, description="By rule: the effect of breaking it.")
    limit: Count = Field(
        default=_DEFAULT.limit,
        description="Bytes of untrusted text that one conversation tracks; beyond, sinks are refused.",
    )
    budget: Count = Field(
        default=_UNSET,
        description="Bits about untrusted data that quarantined listeners may pass on; no bound if left out.",
    )
    exit_budget: Count = Field(
        default=_UNSET,
        description="Bits that choices at exits may carry out of one conversation: which link, case, order, number; 64 "
        "if left out.",
    )
    endorse_hours: Count = Field(
        default=_DEFAULT.endorse_hours,
        description="Hours for which a person's answer *always* endorses a document.",
    )
    endorse_limit: Count = Field(
        default=_UNSET,
        description="Sum of the amounts that one endorsement allows at most; if left out, that of the rows it lists.",
    )


_MAPPING = frozenset({"model_type", "model_attributes_type", "dict_type"})


def describe_fault(fault: ErrorDetails) -> tuple[Loc, str]:
    """Locate a mistake in the document and describe it.

    Args:
        fault: pydantic's error for a ``PolicyEntry``, with ``loc`` relative to it.
    """
    loc: Loc = tuple(part for part in fault["loc"] if part not in _UNWRITTEN)
    around, key, kind = loc[:-1], loc[-1] if loc else "", fault["type"]
    context = fault.get("ctx", {})
    if kind == "missing":
        return around, f"{describe_mapping(around)} has no {key}"
    if kind == "extra_forbidden":
        return (
            loc,
            f"unknown key '{key}' in {describe_mapping(around)}{_suggest_name(str(key), _list_keys(around))}",
        )
    if kind in _MAPPING:
        return loc, f"{describe_mapping(loc)} must be a mapping"
    if kind == "no_text" and isinstance(key, int):
        return loc, f"an entry of '{around[-1]}' must be a text"
    texts = {
        "list_type": f"'{key}' must be a list, such as [one, two]",
        "no_text": f"'{key}' must be a text",
        "no_flag": f"'{key}' must be yes or no, not '{context.get('value')}'",
        "no_count": f"'{key}' must be a positive whole number, not '{context.get('value')}'",
        "no_reader": f"'{context.get('value')}' names no reader; principal, directory:listener, an address, a host, "
        "a link or a name",
        "no_place": f"'{context.get('value')}' in '{around[-1] if around else ''}' names no destination; "
        "an address, a host, a link or a name",
        "no_word": str(context.get("told")),
    }
    return loc, texts.get(kind, fault["msg"])


def describe_mapping(loc: Loc) -> str:
    """Describe a mapping of the policy, such as ``sink 'send_mail'``."""
    words = {
        ("sinks", 2): "sink",
        ("sinks", 4): "argument",
        ("fields", 2): "the fields of",
        ("fields", 3): "field",
        ("layouts", 2): "the layouts of",
    }
    words[("readers", 2)] = "the readers of"
    if not loc:
        return "the policy"
    word = words.get((str(loc[0]), len(loc)))
    return f"{word} '{loc[-1]}'" if word else f"'{loc[-1]}'"


def _list_keys(loc: Loc) -> Iterable[str]:
    """List the keys of a mapping whose keys are fixed."""
    match loc:
        case ("fields", *_):
            return FieldEntry.model_fields
        case ("sinks", _, "arguments", *_):
            return ArgumentEntry.model_fields
        case ("sinks", *_):
            return SinkEntry.model_fields
    return PolicyEntry.model_fields
