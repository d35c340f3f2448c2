"""Choice of a trusted record by the principal's words.

A trusted listener says which things exist, not which one is meant. Its record supports a call only if the principal
chose it: by a field that the words name, or as the only answer to a call whose arguments were all the principal's.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from agentserver.provenance.confidentiality.origin import item_of
from agentserver.provenance.evidence.destinations import PlaceForm, parse_destination
from agentserver.provenance.evidence.folding import fold
from agentserver.provenance.evidence.labels import Role, strip_indices
from agentserver.provenance.evidence.leaves import build_typed_key, format_text
from agentserver.provenance.evidence.readings import MomentValue, read_dated
from agentserver.provenance.observations.describing import PAIR, find_described_items, find_extremes
from agentserver.provenance.policy import forms
from agentserver.provenance.request.languages import WORD_LISTS, is_common
from agentserver.provenance.request.trusted_words import list_telling_words, split_sentences, strip_marks

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from agentserver.provenance.evidence.labels import Leaf, Observation, Scalar
    from agentserver.provenance.request.trusted_words import TrustedWords

LETTERS: Final = 3
"""Minimum characters of a field that names its record."""
NAME_WORDS: Final = 5
"""Maximum words of a field if one of them may name its record."""
DIGITS: Final = 4
"""Minimum characters of one without letters; a shorter number coincides with an amount or a day."""
RECORDS: Final = 1000
"""Maximum fields of an output in which a record is chosen."""
AMONG: Final = 20
"""Maximum records among which a look-up by other words finds one, or all."""
RECORDS_OF_A_DAY: Final = 100
"""Maximum records among which one is chosen by its day and a word of its name."""

_ALL: Final = frozenset(WORD_LISTS["everybody"].split())
_CERTAIN: Final = {PlaceForm.ADDRESS, PlaceForm.LINK, PlaceForm.ACCOUNT}


def find_chosen_fields(
    request: TrustedWords,
    seen: Observation,
    answer_fields: Sequence[tuple[Leaf, str]],
    conventions: frozenset[str],
) -> frozenset[str]:
    """Find the paths of the fields of each record that the principal's words chose.

    A field that several records share names none of them. If the words name no field as a whole, one word of a name, in
    capitals as the record has it, names its record. Of several values in one place, such as a list of members,
    or of several receivers of one form in one record, none is chosen unless the words name it. So it is with the
    records in a list of a record.

    Args:
        request: the principal's words.
        seen: the answer.
        answer_fields: the fields of the answer that no stranger fills, with their text.
        conventions: in which the words give days.
    """
    if not request.queries or len(answer_fields) > RECORDS:
        return frozenset()
    items = _group_by_item(answer_fields)
    records = [item for item in items if item] or [*items]
    if len(records) == 1 and _list_other_selectors(request, seen, conventions) == []:
        chosen = set(records)
    else:
        chosen_items = {item: items[item] for item in records}
        chosen = _find_named_items(request, chosen_items)
        if not chosen and _is_unfiltered(request, seen):
            bodies = {item: [body for _, body in fields] for item, fields in chosen_items.items()}
            chosen = _find_items_with_part(request, bodies, minimum=1) or _find_items_in_any_order(
                request, bodies
            )
        chosen = chosen or _find_described(request, chosen_items, seen, conventions)
    paths = {path for item in chosen for path in _list_single_fields(items[item])}
    return frozenset(paths.union(*(_list_named_inner_fields(request, item, items[item]) for item in chosen)))


def _list_named_inner_fields(
    request: TrustedWords, item: str, fields: Sequence[tuple[Leaf, str]]
) -> list[str]:
    """List the fields of the records in the lists of a record that the words name, as *the CNAME* of a zone."""
    inner: dict[str, list[tuple[Leaf, str]]] = {}
    for leaf, body in fields:
        if place := item_of(leaf.path[len(item) :]):
            inner.setdefault(place, []).append((leaf, body))
    named = _find_named_items(request, inner)
    return [path for place in named for path in _list_single_fields(inner[place])]


class FoundFields(NamedTuple):
    """Fields of records that others than the principal selected.

    Args:
        paths: of the fields; may be empty.
        selectors: the arguments of the look-up that are not the principal's.
        is_sole: whether they are all of one record, which was the only one. Of several ones the words left some.
    """

    paths: frozenset[str] = frozenset()
    selectors: tuple[str, ...] = ()
    is_sole: bool = True


def find_found_fields(
    request: TrustedWords,
    seen: Observation,
    answer_fields: Sequence[tuple[Leaf, str]],
    conventions: frozenset[str],
) -> FoundFields:
    """Find the fields of the only record of an answer, or the receivers that the words mean among several ones.

    *Whoever leads the returns team* means the one of two leads that has *returns*, *all who can drive* means each
    receiver that the look-up of drivers returns.
    """
    items = _group_by_item(answer_fields) if len(answer_fields) <= RECORDS else {}
    records = [item for item in items if item] or [*items]
    others = _list_other_selectors(request, seen, conventions) if records else None
    if not others or len(records) > AMONG:
        return FoundFields()
    if len(records) == 1:
        return FoundFields(frozenset(_list_single_fields(items[records[0]])), tuple(others))
    named = {*records} if request.says_any(_ALL) else _find_meant_items(request, items)
    paths = {path for item in named for path in _list_single_fields(items[item])}
    return FoundFields(_list_receivers(answer_fields, paths), tuple(others), is_sole=False)


def _find_meant_items(request: TrustedWords, items: Mapping[str, Sequence[tuple[Leaf, str]]]) -> set[str]:
    """Find the records that the words mean among some that other words selected.

    They are those whose name the words hold in part, such as *Abel and Tomaž*, the extremes, such as *the three
    largest*, or the only one with a word of the request.
    """
    bodies = {item: [body for _, body in fields] for item, fields in items.items() if item}
    return (
        _find_items_with_part(request, bodies, minimum=1)
        or find_extremes(request, {item: items[item] for item in bodies})
        or _find_items_by_words(request, items)
    )


def _find_items_by_words(request: TrustedWords, items: Mapping[str, Sequence[tuple[Leaf, str]]]) -> set[str]:
    """Find the one record that has a word of the request that no other one has, if no other one has such a word."""
    shown = {
        item: {word for _, body in fields for word in _list_name_words(body)}
        for item, fields in items.items()
        if item
    }
    counts = Counter(word for words in shown.values() for word in words)
    said = {word for word, count in counts.items() if count == 1 and request.mentions(word, any_case=True)}
    found = {item for item, words in shown.items() if not words.isdisjoint(said)}
    return found if len(found) == 1 else set()


def find_meant_receivers(
    request: TrustedWords,
    seen: Observation,
    answer_fields: Sequence[tuple[Leaf, str]],
    conventions: frozenset[str],
) -> frozenset[str]:
    """Find the paths of the receivers in all records of an answer, if the words mean all that they select.

    *Write to everybody on trip TR-640* means each traveller that the look-up of TR-640 returns. They may receive, and
    support no call: a text could say which one of them.

    Args:
        request: the principal's words.
        seen: the answer.
        answer_fields: the fields of the answer that no stranger fills, with their text.
        conventions: in which the words give days.
    """
    if len(answer_fields) > RECORDS or not request.says_any(_ALL):
        return frozenset()
    if _list_other_selectors(request, seen, conventions) != []:
        return frozenset()
    items = _group_by_item(answer_fields)
    single = {path for item, fields in items.items() if item for path in _list_single_fields(fields)}
    return _list_receivers(answer_fields, single)


def _list_receivers(fields: Sequence[tuple[Leaf, str]], paths: Container[str]) -> frozenset[str]:
    """List the paths of the fields that name a receiver, of some paths."""
    return frozenset(leaf.path for leaf, body in fields if leaf.path in paths and forms.names_receiver(body))


def find_named_fields(
    request: TrustedWords,
    seen: Observation,
    answer_fields: Sequence[tuple[Leaf, str]],
    conventions: frozenset[str],
) -> frozenset[str]:
    """Find the paths of the fields of each record that the words name by a field, where no other record has it.

    If they name none so, they may describe one.

    Args:
        request: the principal's words.
        seen: the answer.
        answer_fields: its fields, whoever fills them.
        conventions: in which the words give days.
    """
    if not request.queries or len(answer_fields) > RECORDS:
        return frozenset()
    items = _group_by_item(
        [
            (leaf, body)
            for leaf, body in answer_fields
            if (item := item_of(leaf.path)) and _is_own_field(leaf, item)
        ]
    )
    if not items:
        return frozenset()
    named = _find_named_items(request, items) or _find_described(request, items, seen, conventions)
    return frozenset(path for item in named for path in _list_single_fields(items[item]))


def _is_own_field(leaf: Leaf, item: str) -> bool:
    """Check whether a field of a list item is in no list of its own: a comment is another's."""
    return "[" not in leaf.path[len(item) :]


def _group_by_item(fields: Sequence[tuple[Leaf, str]]) -> dict[str, list[tuple[Leaf, str]]]:
    """Group the fields with a path by the list item that they belong to; those of no item are under an empty text."""
    items: dict[str, list[tuple[Leaf, str]]] = {}
    for leaf, body in fields:
        if leaf.path:
            items.setdefault(item_of(leaf.path), []).append((leaf, body))
    return items


def _find_items_in_any_order(request: TrustedWords, items: Mapping[str, Sequence[str]]) -> set[str]:
    """Find the record with a field whose words are in one sentence in any order, if no other one has such a field.

    *The head of the politics desk* is the one whose role is *head of desk*. A single word is no description.
    """
    said = [list_telling_words(each) for words in request.audible for each in split_sentences(words)]
    described = {
        item
        for item, bodies in items.items()
        for body in bodies
        if len(words := _list_name_words(body)) >= PAIR and any(map(words.issubset, said))
    }
    return described if len(described) == 1 else set()


def find_items_with_name(request: TrustedWords, fields: Iterable[tuple[str, str]]) -> frozenset[str]:
    """Find the records, by item, whose name shares two words in a row with the principal's words and no other record.

    Args:
        request: the principal's words.
        fields: path and text of the fields of an output.
    """
    items: dict[str, list[str]] = {}
    for path, body in fields:
        if item := item_of(path):
            items.setdefault(item, []).append(body)
    return frozenset(_find_items_with_part(request, items, minimum=2))


def _find_described(
    request: TrustedWords,
    items: Mapping[str, Sequence[tuple[Leaf, str]]],
    seen: Observation,
    conventions: frozenset[str],
) -> set[str]:
    """Find the records that the words describe: by several fields, as extremes, or by a day and a word of a name."""
    whole = seen.unexposed or _is_unfiltered(request, seen)
    says_day = partial(MomentValue.is_said, keys=request.read_values(conventions), now=seen.time)
    found = find_described_items(request, items, partial(_is_named, request), says_day, whole=whole)
    return found or _find_dated_items(request, items, seen, conventions)


def _find_named_items(request: TrustedWords, items: Mapping[str, Sequence[tuple[Leaf, str]]]) -> set[str]:
    """Find the records with a field that the words name and no other record has."""
    candidates = [
        (item, fold(body))
        for item, fields in items.items()
        for leaf, body in fields
        if _is_named(request, leaf, body)
    ]
    if not candidates:
        return set()
    counts = Counter(form for fields in items.values() for form in {fold(body) for _, body in fields})
    return {item for item, form in candidates if counts[form] == 1}


def _find_items_with_part(
    request: TrustedWords, items: Mapping[str, Sequence[str]], *, minimum: int
) -> set[str]:
    """Find the records with a field that the words hold in part, as long as no other record shows that part.

    The part is ``minimum`` words of a name in a row, each in capitals and no month or day. It begins no request.
    """
    shown: dict[str, set[str]] = {}
    for item, bodies in items.items():
        for body in bodies:
            for part in _list_parts(body, minimum):
                shown.setdefault(part, set()).add(item)
    plain: dict[str, set[str]] = {}
    for part, holders in shown.items():
        if all(map(_is_part_of_name, strip_marks(part).split())):
            plain.setdefault(strip_marks(part), set()).update(holders)
    return _find_shown_items(request, shown) or _find_shown_items(request, plain)


def _find_shown_items(request: TrustedWords, shown: Mapping[str, set[str]]) -> set[str]:
    """Find the records that alone show a part that the words hold."""
    found = (
        holders
        for part, holders in shown.items()
        if len(holders) == 1 and request.mentions(part) and not begins_request(request, part)
    )
    return {item for holders in found for item in holders}


def _find_dated_items(
    request: TrustedWords,
    items: Mapping[str, Sequence[tuple[Leaf, str]]],
    seen: Observation,
    conventions: frozenset[str],
) -> set[str]:
    """Find the one record with a day and a word of its name that the words say, such as *Friday's yoga*.

    Another form of the word makes a second record, but counts for a choice only where no text could propose it.
    """
    if len(items) > RECORDS_OF_A_DAY:
        return set()
    said = request.read_values(conventions)
    found: dict[str, bool] = {}
    for item, fields in items.items():
        own = [(leaf, body) for leaf, body in fields if _is_own_field(leaf, item)]
        if any(is_on_said_day(leaf.value, said, seen.time) for leaf, _ in own):
            words = {word for _, body in own for word in _list_name_words(body)}
            if any(map(request.mentions_form, words)):
                found[item] = any(request.mentions(word, any_case=True) for word in words)
    return {*found} if len(found) == 1 and (seen.unexposed or all(found.values())) else set()


def is_on_said_day(value: Scalar, said: frozenset[str], now: float) -> bool:
    """Check whether a moment is on a day that the words say; a time there may be the one that it shall get."""
    moment = read_dated(value)
    return moment is not None and MomentValue(moment.day, None).is_said(said, now)


def _list_name_words(body: str) -> frozenset[str]:
    """List the words in a short field that may name its record, except days and months."""
    if len(body) > forms.CHOICE or len(body.split()) > NAME_WORDS:
        return frozenset()
    return frozenset(word for word in list_telling_words(body) if not _is_of_date(word))


def _list_parts(body: str, minimum: int) -> list[str]:
    """List the parts of a field that may name its record: some words of a name in a row."""
    words = [word.strip(",.;:()") for word in body.split()] if len(body) <= forms.CHOICE else []
    if not minimum < len(words) <= NAME_WORDS:
        return []
    runs = (words[at : at + minimum] for at in range(len(words) - minimum + 1))
    return [" ".join(run) for run in runs if all(map(_is_part_of_name, run))]


def _is_part_of_name(word: str) -> bool:
    is_plain = word.replace("-", "").replace("'", "").isalpha()
    return len(word) >= LETTERS and word[0].isupper() and is_plain and not _is_of_date(word.casefold())


def _is_of_date(word: str) -> bool:
    """Check whether a folded word is a month or a day of the week."""
    from agentserver.provenance.evidence.lexicon import LEXICON

    return word in LEXICON.months or word in LEXICON.days


def begins_request(request: TrustedWords, part: str) -> bool:
    """Check whether a part begins a request, where a verb has a capital too."""
    return any(query.lstrip().startswith(part) for query in request.queries)


def _list_single_fields(fields: Sequence[tuple[Leaf, str]]) -> list[str]:
    """List the paths of a record's fields that have one value, without its receivers of a form if it has several.

    An address and an account of one record are no alternatives, two addresses are. Text that is neither an address, a
    link nor an account, such as a list of addresses, may be an alternative to each of them.
    """
    places = Counter(strip_indices(leaf.path) for leaf, _ in fields)
    receivers = {fold(body): parse_destination(body).form for _, body in fields if forms.names_receiver(body)}
    counts = Counter(receivers.values())
    alike = len(receivers) < 2 or _CERTAIN.issuperset(counts)  # noqa: PLR2004
    single = {form for form, count in counts.items() if count == 1 and alike}
    return [
        leaf.path
        for leaf, body in fields
        if places[strip_indices(leaf.path)] == 1 and receivers.get(fold(body)) in {None, *single}
    ]


def has_name_part(request: TrustedWords, body: str) -> bool:
    """Check whether a short name has a part of a name in the words, as *Olivier Vandamme* has of *M. Vandamme*."""
    parts = _list_parts(body, minimum=1)
    return any(request.mentions(part) and not begins_request(request, part) for part in parts)


def shows_said_name(request: TrustedWords, body: str) -> bool:
    """Check whether the words hold a field as a whole, or a part of a name in it."""
    return _is_whole_said(request, body) or any(map(request.mentions, _list_parts(body, minimum=1)))


def _is_named(request: TrustedWords, leaf: Leaf, body: str) -> bool:
    """Check whether the words name a field as a whole."""
    return not isinstance(leaf.value, bool) and _is_whole_said(request, body)


def _is_whole_said(request: TrustedWords, body: str) -> bool:
    name = body.strip()
    minimum = LETTERS if any(map(str.isalpha, name)) else DIGITS
    return minimum <= len(name) <= forms.CHOICE and request.mentions(name, any_case=True)


def _is_unfiltered(request: TrustedWords, seen: Observation) -> bool:
    """Check whether an output lists all that there is, or only what the principal's words select of it.

    What another word leaves out may share the part that names a record.
    """
    return all(_is_requested(request, leaf, loosely=False) for leaf in _list_telling(seen.arguments))


def _list_telling(arguments: Sequence[Leaf]) -> list[Leaf]:
    """List the arguments that select something."""
    return [
        leaf
        for leaf in arguments
        if forms.derive_role(leaf.value) is not Role.INERT and format_text(leaf.value).strip()
    ]


def _list_other_selectors(
    request: TrustedWords, seen: Observation, conventions: frozenset[str]
) -> list[str] | None:
    """List the arguments that select something and that the principal's words do not hold; None without selectors.

    An agent that has read nothing untrusted yet may also select by a day that they say.
    """
    telling = _list_telling(seen.arguments)
    if not telling:
        return None
    return [
        format_text(leaf.value).strip()
        for leaf in telling
        if not _is_requested(request, leaf, loosely=seen.unexposed)
        and not (seen.unexposed and _is_said_day(request, leaf, conventions, seen.time))
    ]


def _is_said_day(request: TrustedWords, leaf: Leaf, conventions: frozenset[str], now: float) -> bool:
    """Check whether an argument is a day that the words say, its beginning or its end."""
    moment = read_dated(leaf.value)
    return moment is not None and moment.bounds_said_day(request.read_values(conventions), now)


def _is_requested(request: TrustedWords, leaf: Leaf, *, loosely: bool) -> bool:
    body, kind = format_text(leaf.value).strip(), build_typed_key(leaf.value)
    named = request.chooses(body) or request.mentions_plainly(body)
    if (len(body) >= LETTERS and named) or (kind is not None and kind in request.kinds):
        return True
    words = body.split() if len(body) <= forms.CHOICE else []
    if loosely and words and all(word.isalpha() and request.mentions_form(word) for word in words):
        return True
    return _consists_of_said_words(request, words)


def _consists_of_said_words(request: TrustedWords, words: Sequence[str]) -> bool:
    """Check whether a search has only words of the principal's, such as *PE 7b* for the PE teacher of 7b.

    Two parts of names are in a row, in any order, so that no text makes one name of two. A single word may be the first
    part of one with a hyphen, such as *Brønde-projektet*.
    """
    if len(words) == 1:
        return words[0].isalpha() and not is_common(words[0]) and _begins_compound(request, words[0])
    if not words or not all(map(request.mentions_plainly, words)):
        return False
    names = [word for word in words if word[0].isupper() and word[1:].islower()]
    turned = " ".join(reversed(words))
    return (len(names) < 2 and any(map(_is_telling, words))) or request.mentions_plainly(turned)  # noqa: PLR2004


def _is_telling(word: str) -> bool:
    return any(map(str.isdigit, word)) or (len(word) >= LETTERS and not is_common(word))


def _begins_compound(request: TrustedWords, word: str) -> bool:
    """Check whether a word precedes a hyphen and a word in small letters; with a capital it may be another name."""
    pattern = re.compile(rf"(?<![\w-]){re.escape(word)}-([^\W\d_])", re.IGNORECASE)
    found = (match[1] for words in request.audible for match in pattern.finditer(words))
    return len(word) >= LETTERS and any(map(str.islower, found))
