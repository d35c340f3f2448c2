"""The keys of a policy as a model: its checks, its help for editors and the words of each mistake.

Owns the one description of the keys, for a policy file, for ``provenance:`` of an organism and for editors. Refuses to
know YAML, lines, and what a policy does.
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

from agentserver.provenance.confidentiality.readers import sound
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


def _text(value: Any) -> str:
    """A text; a number is one, as it is written."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value.strip():
        raise PydanticCustomError("no_text", "must be a text")
    return value


def _place(value: str) -> str:
    """A text that can mean a destination: one that cannot would allow, or deny, nothing."""
    if not DestinationPattern(value).sound:
        raise PydanticCustomError("no_place", "{value}", {"value": value})
    return value


def _reader(value: str) -> str:
    """An entry that can mean a receiver."""
    if not sound(value):
        raise PydanticCustomError("no_reader", "{value}", {"value": value})
    return value


def _field(value: str) -> str:
    """An entry that names fields. ``asked`` stood for every document that the request named."""
    if value == "asked":
        told = "'asked' is no entry any more: name the fields; in documents that the request named they count"
        raise PydanticCustomError("no_word", "{told}", {"told": told})
    return value


_FLAGS = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}


def _flag(value: Any) -> bool:
    known = value if isinstance(value, bool) else _FLAGS.get(_text(value).lower())
    if known is None:
        raise PydanticCustomError("no_flag", "{value}", {"value": str(value)})
    return known


_DIGITS = 18
"""Of the longest number that a policy may hold."""


def _count(value: Any) -> int:
    digits = _text(value).replace("_", "")
    if not digits.isdecimal() or len(digits) > _DIGITS or int(digits) == 0:
        raise PydanticCustomError("no_count", "{value}", {"value": str(value)})
    return int(digits)


def _words(kind: type[Enum]) -> dict[str, Any]:
    return {member.name.lower(): member for member in kind}


def _word(kind: type[E], what: str) -> Callable[[Any], E]:
    """The reader of one word for a member of an enum."""
    known: dict[str, E] = _words(kind)

    def read(value: Any) -> E:
        if isinstance(value, kind):
            return value
        said = "off" if value is False else _text(value)
        if said not in known:
            raise PydanticCustomError("no_word", "{told}", {"told": _unknown(said, what, known)})
        return known[said]

    return read


def _unknown(said: str, what: str, known: Iterable[str]) -> str:
    told = f"unknown rule '{said}'" if what == "rule" else f"'{said}' is no {what}"
    return told + _meant(said, known)


def _meant(name: str, known: Iterable[str]) -> str:
    names = list(known)
    near = get_close_matches(name, names, 1)
    return f"; did you mean '{near[0]}'?" if near else f"; known are {', '.join(names)}"


def _enum(kind: type[Enum]) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "enum": list(_words(kind))})


_BOOLEAN = WithJsonSchema({"anyOf": [{"type": "boolean"}, {"type": "string", "enum": list(_FLAGS)}]})
_POSITIVE = WithJsonSchema(
    {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": "^[0-9_]*[1-9][0-9_]*$"}]}
)


Text: TypeAlias = Annotated[
    str, PlainValidator(_text), WithJsonSchema({"type": ["string", "number"], "minLength": 1})
]
Places: TypeAlias = list[Annotated[Text, AfterValidator(_place)]]
ReaderList: TypeAlias = list[Annotated[Text, AfterValidator(_reader)]]
Flag: TypeAlias = Annotated[bool, PlainValidator(_flag), _BOOLEAN]
Count: TypeAlias = Annotated[int, PlainValidator(_count), _POSITIVE]
ModeWord: TypeAlias = Annotated[Mode, PlainValidator(_word(Mode, "mode")), _enum(Mode)]
PlanWord: TypeAlias = Annotated[PlanSource, PlainValidator(_word(PlanSource, "plan")), _enum(PlanSource)]
StandingWord: TypeAlias = Annotated[Standing, PlainValidator(_word(Standing, "standing")), _enum(Standing)]
RoleWord: TypeAlias = Annotated[Role, PlainValidator(_word(Role, "role")), _enum(Role)]
RuleWord: TypeAlias = Annotated[Rule, PlainValidator(_word(Rule, "rule")), _enum(Rule)]
EffectWord: TypeAlias = Annotated[Effect, PlainValidator(_word(Effect, "effect")), _enum(Effect)]
Effects: TypeAlias = dict[RuleWord, EffectWord]


class _Entry(BaseModel):
    """No unknown keys, no changes, no values in error messages."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class ArgumentEntry(_Entry):
    """One argument of a sink."""

    role: RoleWord = Field(
        description="What the argument decides: who receives, what is acted on, what is said."
    )
    accepts: list[Annotated[Text, AfterValidator(_field)]] = Field(
        default_factory=list,
        description="Fields, as listener.field, whose values authorise this argument: as records, or in documents that "
        "the trusted query named; record stands for the record that a selector of the same call names.",
    )
    id: Text = Field(
        default="",
        description="The kind of thing that it chooses: only a field of the same kind authorises it.",
    )
    values: list[Text] = Field(
        default_factory=list, description="Values that need no authority, such as a default."
    )


Argument: TypeAlias = Annotated[
    Annotated[RoleWord, Tag(WORD)] | Annotated[ArgumentEntry, Tag(ENTRY)],
    Discriminator(lambda value: ENTRY if isinstance(value, dict | ArgumentEntry) else WORD),
]


class FieldEntry(_Entry):
    """One field of a source."""

    standing: StandingWord = Field(
        default=Standing.RECORD, description="What the field is worth: prose, record, directory or own."
    )
    id: Text = Field(default="", description="The kind of thing that its values identify, and nothing else.")


FieldWorth: TypeAlias = Annotated[
    Annotated[StandingWord, Tag(WORD)] | Annotated[FieldEntry, Tag(ENTRY)],
    Discriminator(lambda value: ENTRY if isinstance(value, dict | FieldEntry) else WORD),
]


class SinkEntry(_Entry):
    """A listener with consequences."""

    arguments: dict[Text, Argument] = Field(
        default_factory=dict, description="By field: its role, or a role and what it accepts."
    )
    mode: ModeWord = Field(default=_UNSET, description="Its own mode; that of the policy if left out.")
    effects: Effects = Field(
        default_factory=dict, description="By rule: what is done about a call that breaks it."
    )


Sinks: TypeAlias = Annotated[
    Annotated[list[Text], Tag(NAMES)] | Annotated[dict[Text, SinkEntry | None], Tag(RULES)],
    Discriminator(lambda value: NAMES if isinstance(value, list) else RULES),
]


Readable: TypeAlias = Annotated[
    Annotated[ReaderList, Tag(NAMES)] | Annotated[dict[Text, ReaderList], Tag(RULES), Field(min_length=1)],
    Discriminator(lambda value: NAMES if isinstance(value, list) else RULES),
]


LayoutWord: TypeAlias = Annotated[TextLayout, PlainValidator(_word(TextLayout, "layout")), _enum(TextLayout)]
Laid: TypeAlias = Annotated[
    Annotated[LayoutWord, Tag(WORD)] | Annotated[dict[Text, LayoutWord], Tag(ENTRY), Field(min_length=1)],
    Discriminator(lambda value: ENTRY if isinstance(value, dict) else WORD),
]


class PolicyEntry(_Entry):
    """The origins that values may have which drive something with consequences."""

    mode: ModeWord = Field(
        default=Mode.AUDIT,
        description="What is done about a call that a rule refuses: audit, confirm or enforce.",
    )
    sources: list[Text] = Field(
        default_factory=list,
        description="Listeners whose words are a stranger's, as names or patterns.",
    )
    sinks: Sinks = Field(
        default_factory=list,
        description="Listeners with consequences: a list of names, or by name what is said of each.",
    )
    trusted: list[Text] = Field(default_factory=list, description="Listeners whose words are no stranger's.")
    relays: list[Text] = Field(
        default_factory=list,
        description="Listeners that repeat the words of others, so that theirs vouch for nothing.",
    )
    inert: list[Text] = Field(
        default_factory=list,
        description="Listeners without consequences, whose words come from their arguments alone.",
    )
    fields: dict[Text, dict[Text, FieldWorth]] = Field(
        default_factory=dict, description="By listener and field: what a field of a source is worth."
    )
    readers: dict[Text, Readable] = Field(
        default_factory=dict,
        description="By listener, or by listener and field: who may be given its content, as principal, "
        "directory:listener or a destination. An empty list means no receiver at all.",
    )
    layouts: dict[Text, Laid] = Field(
        default_factory=dict,
        description="By listener, or by listener and field: the layout of a text whose parts are fields. Only where a "
        "program writes it that escapes what it is given: a stranger's line ends must not make lines.",
    )
    allow: Places = Field(default_factory=list, description="Destinations that need no authority.")
    deny: Places = Field(default_factory=list, description="Destinations that nothing reaches.")
    query_authorises: Flag = Field(
        default=_DEFAULT.query_authorises,
        description="Whether a destination that the principal named may receive.",
    )
    plan: PlanWord = Field(
        default=_DEFAULT.plan,
        description="The part of plans. optional: one that a planner makes counts. required: without one no sink runs. "
        "confirmed: the same, and a person confirms the plan, once. off: none counts.",
    )
    strict: Flag = Field(
        default=_DEFAULT.strict, description="Whether every sink is refused once untrusted text was read."
    )
    follow_links: Flag = Field(
        default=_DEFAULT.follow_links,
        description="Whether a link that the principal named leads on to those in its document.",
    )
    effects: Effects = Field(
        default_factory=dict, description="By rule: what is done about a call that breaks it."
    )
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


_MAPPING = frozenset({"model_type", "model_attributes_type", "dict_type"})


_RETIRED = {
    "infer_fields": "nothing is inferred from names; leave the line out",
    "actions": "the words of a request decide nothing alone; leave the line out",
}
"""Keys of earlier versions, and what to do about them."""


def told(fault: ErrorDetails) -> tuple[Loc, str]:
    """The place of a mistake in the document, and the mistake in words.

    Args:
        fault: as pydantic tells it of a ``PolicyEntry``, its ``loc`` from there.
    """
    loc: Loc = tuple(part for part in fault["loc"] if part not in _UNWRITTEN)
    around, key, kind = loc[:-1], loc[-1] if loc else "", fault["type"]
    said = fault.get("ctx", {})
    if kind == "missing":
        return around, f"{called(around)} has no {key}"
    if kind == "extra_forbidden" and key in _RETIRED:
        return loc, f"'{key}' is no key any more: {_RETIRED[str(key)]}"
    if kind == "extra_forbidden":
        return loc, f"unknown key '{key}' in {called(around)}{_meant(str(key), _keys(around))}"
    if kind in _MAPPING:
        return loc, f"{called(loc)} must be a mapping"
    if kind == "no_text" and isinstance(key, int):
        return loc, f"an entry of '{around[-1]}' must be a text"
    texts = {
        "list_type": f"'{key}' must be a list",
        "no_text": f"'{key}' must be a text",
        "no_flag": f"'{key}' must be yes or no, not '{said.get('value')}'",
        "no_count": f"'{key}' must be a positive whole number, not '{said.get('value')}'",
        "no_reader": f"'{said.get('value')}' names no reader; principal, directory:listener, an address, a host, "
        "a link or a name",
        "no_place": f"'{said.get('value')}' in '{around[-1] if around else ''}' names no destination; "
        "an address, a host, a link or a name",
        "no_word": str(said.get("told")),
    }
    return loc, texts.get(kind, fault["msg"])


def called(loc: Loc) -> str:
    """A mapping of the policy, in words."""
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


def _keys(loc: Loc) -> Iterable[str]:
    """The keys of a mapping whose keys are fixed."""
    match loc:
        case ("fields", *_):
            return FieldEntry.model_fields
        case ("sinks", _, "arguments", *_):
            return ArgumentEntry.model_fields
        case ("sinks", *_):
            return SinkEntry.model_fields
    return PolicyEntry.model_fields
