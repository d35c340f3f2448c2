"""Channel capacity of a listener with a closed output schema: how much it can reveal about untrusted data.

Counts the distinct documents that an XSD type admits, in bits: untrusted text that steers a quarantined listener can
choose among that many answers. A type that is unbounded, or uses a part of XSD that is not counted here, has infinite
capacity.
"""

from __future__ import annotations

import math
import re
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lxml import etree

XS: Final = "{http://www.w3.org/2001/XMLSchema}"
UNBOUNDED: Final = math.inf

_COUNTED: Final = 1000
"""Maximum occurrences that are added up one by one. Beyond, the capacity is rounded up."""

_INTEGERS: Final[dict[str, tuple[int, int]]] = {
    "byte": (-(2**7), 2**7 - 1),
    "short": (-(2**15), 2**15 - 1),
    "int": (-(2**31), 2**31 - 1),
    "long": (-(2**63), 2**63 - 1),
    "unsignedByte": (0, 2**8 - 1),
    "unsignedShort": (0, 2**16 - 1),
    "unsignedInt": (0, 2**32 - 1),
    "unsignedLong": (0, 2**64 - 1),
}
_HALF_OPEN: Final = {"nonNegativeInteger": (0, None), "positiveInteger": (1, None), "integer": (None, None)}
_NUMBERS: Final = frozenset({"boolean", *_INTEGERS, *_HALF_OPEN})
_CHOICE: Final = f"{XS}enumeration"


@dataclass(frozen=True, slots=True)
class Channel:
    """Capacity of one message of a quarantined listener."""

    bits: float
    parts: tuple[tuple[str, float], ...]
    """Bits of each element and attribute that carries information, by its path."""

    @property
    def closed(self) -> bool:
        """True when the capacity is finite."""
        return self.bits < UNBOUNDED

    def __str__(self) -> str:
        if not self.closed:
            open_parts = ", ".join(path for path, bits in self.parts if bits == UNBOUNDED)
            return f"unbounded ({open_parts})"
        return f"{self.bits:.1f} bits a message"


def measure_capacity(schema: etree._Element, root: str | None = None) -> Channel:
    """Measure the capacity of the global element ``root``, by default the first, of an XSD document.

    Raises:
        KeyError: the schema declares no such element.
    """
    types = {str(node.get("name")): node for node in schema.iterchildren("*") if node.get("name")}
    elements = [node for node in schema.iterchildren("*") if node.tag == f"{XS}element"]
    chosen = next((node for node in elements if root is None or node.get("name") == root), None)
    if chosen is None:
        raise KeyError(root or "no global element")
    counter = _Counter({name: node for name, node in types.items() if node.tag != f"{XS}element"})
    bits = counter.count_element(chosen, "", ())
    return Channel(bits, tuple(counter.parts))


def measure_fields(schema: etree._Element, root: str | None = None) -> Mapping[str, float]:
    """Measure the bits of each element and attribute that holds a boolean, an enumeration or a bounded number, by path.

    Paths are those of ``Channel.parts``. Missing fields are text, unbounded, or not countable. Text with a small
    alphabet is text: it can hold words.

    Raises:
        KeyError: as for ``measure_capacity``.
    """
    elements = [node for node in schema.iterchildren(f"{XS}element") if root in {None, node.get("name")}]
    if not elements:
        raise KeyError(root or "no global element")
    types = {str(node.get("name")): node for node in schema.iterchildren("*") if node.tag != f"{XS}element"}
    leaves = _Leaves(types)
    leaves.count_element(elements[0], "", ())
    return leaves.found


class _Counter:
    """Walker over one schema, used for one call of ``measure_capacity``."""

    def __init__(self, types: Mapping[str, etree._Element]) -> None:
        self.types = types
        self.parts: list[tuple[str, float]] = []

    def count_element(self, node: etree._Element, path: str, above: tuple[str, ...]) -> float:
        if node.get("ref") is not None or node.get("nillable") == "true":
            return self.add_unbounded(f"{path}/{node.get('ref') or node.get('name')}")
        place = f"{path}/{node.get('name')}"
        if node.get("fixed") is not None:
            return 0.0
        inner = next((child for child in node if child.tag in {f"{XS}simpleType", f"{XS}complexType"}), None)
        return self.count_type(inner, node.get("type"), place, above)

    def count_type(
        self, inner: etree._Element | None, name: str | None, path: str, above: tuple[str, ...]
    ) -> float:
        local = (name or "").rpartition(":")[2]
        if inner is None and local in self.types:
            if local in above:
                return self.add_unbounded(path)
            inner, above = self.types[local], (*above, local)
        if inner is None:
            return self.add_leaf(path, _count_builtin_bits(local))
        if inner.tag == f"{XS}simpleType":
            return self.add_leaf(path, self.count_simple(inner, above))
        return self.count_complex(inner, path, above)

    def add_leaf(self, path: str, bits: float) -> float:
        if bits:
            self.parts.append((path, bits))
        return bits

    def add_unbounded(self, path: str) -> float:
        return self.add_leaf(path, UNBOUNDED)

    def count_complex(self, node: etree._Element, path: str, above: tuple[str, ...]) -> float:
        if node.get("mixed") == "true":
            return self.add_unbounded(path)
        return sum(self.count_particle(child, path, above) for child in node.iterchildren("*"))

    def count_particle(self, node: etree._Element, path: str, above: tuple[str, ...]) -> float:
        """Count the bits of one particle, including its occurrences."""
        if node.tag == f"{XS}annotation":
            return 0.0
        if node.tag == f"{XS}attribute":
            if node.get("use") == "prohibited" or node.get("fixed") is not None:
                return 0.0
            return self.count_optional(
                self.count_element(node, f"{path}/@", above), 0 if node.get("use") != "required" else 1
            )
        minimum, maximum = int(node.get("minOccurs", "1")), node.get("maxOccurs", "1")
        if maximum == "unbounded":
            return self.add_unbounded(f"{path}/{node.get('name', 'particle')}")
        children = list(node.iterchildren("*"))
        match node.tag.removeprefix(XS):
            case "element":
                bits = self.count_element(node, path, above)
            case "sequence" | "all":
                bits = sum(self.count_particle(child, path, above) for child in children)
                bits += math.log2(math.factorial(len(children))) if node.tag == f"{XS}all" else 0.0
            case "choice":
                bits = _count_choice_bits([self.count_particle(child, path, above) for child in children])
            case _:
                return self.add_unbounded(f"{path}/{node.tag.removeprefix(XS)}")
        return _count_repeated_bits(bits, minimum, int(maximum))

    def count_optional(self, bits: float, minimum: int) -> float:
        return _count_repeated_bits(bits, minimum, 1)

    def count_simple(self, node: etree._Element, above: tuple[str, ...]) -> float:
        restriction = node.find(f"{XS}restriction")
        if restriction is None:
            return UNBOUNDED
        values = {facet.get("value") for facet in restriction.findall(f"{XS}enumeration")}
        if values:
            return math.log2(len(values))
        base = (restriction.get("base") or "").rpartition(":")[2]
        if base in self.types and base not in above:
            outer = self.count_simple(self.types[base], (*above, base))
        else:
            outer = _count_builtin_bits(base)
        facets = {str(facet.tag).removeprefix(XS): facet.get("value", "") for facet in restriction}
        return min(outer, _count_restricted_bits(base, facets))


class _Leaves(_Counter):
    """Walker over one schema that measures each single value, regardless of its occurrences."""

    def __init__(self, types: Mapping[str, etree._Element]) -> None:
        super().__init__(types)
        self.found: dict[str, float] = {}

    def add_leaf(self, path: str, bits: float) -> float:
        known = self.found.get(path)
        if bits < UNBOUNDED and (known is None or bits > known):
            self.found[path] = bits
        return bits

    def count_element(self, node: etree._Element, path: str, above: tuple[str, ...]) -> float:
        if node.get("fixed") is not None and node.get("ref") is None:
            return self.add_leaf(f"{path}/{node.get('name')}", 0.0)
        return super().count_element(node, path, above)

    def count_particle(self, node: etree._Element, path: str, above: tuple[str, ...]) -> float:
        if node.tag == f"{XS}attribute":
            return self.count_element(node, f"{path}/@", above)
        if node.get("maxOccurs") == "unbounded":
            node = deepcopy(node)
            node.attrib["maxOccurs"] = "1"
        return super().count_particle(node, path, above)

    def count_simple(self, node: etree._Element, above: tuple[str, ...]) -> float:
        bits = super().count_simple(node, above)
        return bits if self.is_countable(node, above) else UNBOUNDED

    def is_countable(self, node: etree._Element, above: tuple[str, ...]) -> bool:
        """Check whether a simple type is an enumeration, a number or a boolean."""
        restriction = node.find(f"{XS}restriction")
        if restriction is None:
            return False
        base = (restriction.get("base") or "").rpartition(":")[2]
        if base in self.types and base not in above:
            base_counts = self.is_countable(self.types[base], (*above, base))
        else:
            base_counts = base in _NUMBERS
        return base_counts or restriction.find(_CHOICE) is not None


def _count_builtin_bits(name: str) -> float:
    if name == "boolean":
        return 2.0  # true, false, 1 and 0: the spelling is a choice too
    low, high = _INTEGERS.get(name, (0, None))
    return UNBOUNDED if high is None else _count_number_bits(low, high)


def _count_restricted_bits(base: str, facets: Mapping[str, str]) -> float:
    """Count the bits of a restriction by range or by length. Other facets narrow nothing that is counted."""
    low, high = _read_range(base, facets)
    if low is not None and high is not None and (base in _INTEGERS or base in _HALF_OPEN):
        return _count_number_bits(low, high)
    length = facets.get("maxLength") or facets.get("length")
    letters = _count_letters(facets.get("pattern", ""))
    if length and letters:
        return int(length) * math.log2(letters) + math.log2(int(length) + 1)
    return UNBOUNDED


def _read_range(base: str, facets: Mapping[str, str]) -> tuple[int | None, int | None]:
    low, high = _INTEGERS.get(base) or _HALF_OPEN.get(base, (None, None))
    if re.fullmatch(r"-?\d+", facets.get("minInclusive", "")):
        low = int(facets["minInclusive"])
    if re.fullmatch(r"-?\d+", facets.get("maxInclusive", "")):
        high = int(facets["maxInclusive"])
    return low, high


def _count_letters(pattern: str) -> int:
    """Count the characters that a pattern of one class, such as ``[a-z0-9]+``, draws from; 0 for any other."""
    found = re.fullmatch(
        r"\[((?:[A-Za-z0-9]-[A-Za-z0-9]|[A-Za-z0-9_])+)\](?:[+*]|\{\d+(?:,\d*)?\})?", pattern
    )
    if not found:
        return 0
    ranges = re.findall(r"(.)-(.)", found[1])
    single = re.sub(r".-.", "", found[1])
    return sum(ord(last) - ord(first) + 1 for first, last in ranges) + len(set(single))


def _count_number_bits(low: int, high: int) -> float:
    """Count the bits of a whole number by value: the decoder drops leading zeros."""
    return math.log2(max(1, high - low + 1))


def _count_choice_bits(options: list[float]) -> float:
    """Count the bits of a choice between alternatives: their counts add up."""
    greatest = max(options, default=0.0)
    return (
        greatest
        if greatest == UNBOUNDED or not options
        else greatest + math.log2(sum(2 ** (bits - greatest) for bits in options))
    )


def _count_repeated_bits(single: float, minimum: int, maximum: int) -> float:
    """Count the bits of between ``minimum`` and ``maximum`` occurrences."""
    if single == UNBOUNDED:
        return UNBOUNDED if maximum else 0.0
    if maximum > _COUNTED:
        return single * maximum + math.log2(maximum + 1)
    return _count_choice_bits([single * times for times in range(minimum, maximum + 1)])
