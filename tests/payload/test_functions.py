import collections.abc
from collections.abc import AsyncIterator
from dataclasses import dataclass
from decimal import Decimal
from types import ModuleType
from typing import Annotated, Any, NamedTuple, NewType

import pytest
from annotated_types import Len
from lxml import etree

from agentserver import HandlerMetadata, HandlerResponse, SystemError, xmlify
from agentserver.payload.codec import Codecs
from agentserver.payload.functions import (
    SignatureError,
    derive,
    find_derived_class,
    is_function_listener,
    payload_of,
)
from agentserver.payload.xmlify import PayloadError
from agentserver.provenance import Destination, Role
from agentserver.provenance.policy.marks import read_marks


@xmlify
@dataclass(frozen=True)
class Order:
    number: int


@dataclass(frozen=True)
class Receipt:
    iban: str


class Vendor(NamedTuple):
    """One that sells."""

    name: str
    rank: int = 1


async def transfer(
    iban: Destination,
    amount: Annotated[Decimal, Role.QUANTITY],
    note: Annotated[str, Len(0, 80)] = "",
    *,
    to: tuple[str, ...] = (),
) -> Receipt:
    """Transfer money.

    Args:
        iban: the account of the payee.
        amount: in euros.

    Returns:
        A receipt.
    """
    return Receipt(f"{iban}{amount}{note}{to}")


async def pay(order: Order) -> Receipt | None: ...
async def find_vendor(name: str) -> Vendor: ...
async def ping() -> bool: ...
async def stamp(lines: list[str] = []) -> list[str]: ...  # noqa: B006 - the default of which is tried


async def watch(seconds: int) -> AsyncIterator[str | Receipt]:
    yield "begun"


@xmlify
@dataclass(frozen=True)
class Transfer:
    """Moves money by hand: the same, written out.

    Args:
        iban: the account of the payee.
        amount: in euros.
    """

    iban: Destination
    amount: Annotated[Decimal, Role.QUANTITY]
    note: Annotated[str, Len(0, 80)] = ""
    to: tuple[str, ...] = ()


HAND_WRITTEN = Transfer
del Transfer  # its function derives the name


def test_a_derived_class_has_the_schema_the_roles_and_the_descriptions_of_a_written_one():
    (made,) = derive(transfer).payloads
    mine, written = made.__codec__, HAND_WRITTEN.__codec__
    assert made.__xml_name__ == HAND_WRITTEN.__xml_name__ == "{urn:agentserver:payload:Transfer:v1}Transfer"
    assert mine.xsd() == written.xsd()
    assert mine.xsd(documented=True) == written.xsd(documented=True).replace(
        "Moves money by hand: the same, written out.", "Transfer money."
    )
    assert read_marks(made) == read_marks(HAND_WRITTEN)
    assert made("DE", Decimal(5)) == made(iban="DE", amount=Decimal(5), note="", to=())


def test_a_class_is_derived_once_and_belongs_to_the_module_of_its_function():
    made = derive(transfer).payloads[0]
    assert made is derive(transfer).payloads[0] is payload_of(transfer) is payload_of(f"{__name__}.Transfer")
    assert (made.__module__, made.__qualname__) == (__name__, "Transfer")


def test_the_fields_are_passed_as_the_parameters_that_they_were():
    form = derive(transfer)
    assert form.list_arguments(form.payloads[0]("DE", Decimal(5), to=("a",))) == (
        (),
        {"iban": "DE", "amount": Decimal(5), "note": "", "to": ("a",)},
    )
    assert derive(pay).list_arguments(Order(1)) == ((Order(1),), {})

    async def placed(a: int, /, b: int) -> None: ...

    made = derive(placed)
    assert made.list_arguments(made.payloads[0](1, 2)) == ((1,), {"b": 2})


def test_a_single_parameter_that_is_a_payload_is_the_payload():
    assert derive(pay).payloads == (Order,)


def test_answer_classes_of_a_function():
    assert [each.__name__ for each in derive(pay).answers] == ["Receipt", "PayResult"]
    assert Receipt.__xml_name__ == "{urn:agentserver:payload:Receipt:v1}Receipt"
    vendor, pinged, stamped = derive(find_vendor), derive(ping), derive(stamp)
    assert [each.__name__ for each in (*vendor.answers, *pinged.answers, *stamped.answers)] == [
        "Vendor",
        "PingResult",
        "StampResult",
    ]
    assert vendor.answer(Vendor("a")) == vendor.answers[0](name="a", rank=1)
    assert pinged.answer(True) == pinged.answers[0](value=True)
    assert stamped.answer(["a"]).value == ["a"]
    assert (derive(watch).answers, derive(watch).stream) == ((Receipt,), True)


def test_a_value_of_another_type_than_the_annotation_names_is_an_error():
    with pytest.raises(
        TypeError, match="pay answered with Order, and is declared to answer with Receipt, PayResult"
    ):
        derive(pay).answer(Order(1))
    with pytest.raises(TypeError, match="ping answered with Order"):
        derive(ping).answer(Order(1))
    with pytest.raises(
        TypeError, match="find_vendor answered with None, and is declared to answer with Vendor"
    ):
        derive(find_vendor).answer(None)


def test_a_mutable_default_is_made_for_each_payload():
    made = payload_of(stamp)
    assert made().lines == []
    assert made().lines is not made().lines


async def metadata_first(a: int, meta: HandlerMetadata) -> None: ...
async def unannotated(a, b): ...
async def contract(order: Order, meta) -> None: ...
async def payload_alone(payload: int) -> int: ...


class Desk:
    async def sell(self, number: int) -> int: ...


@pytest.mark.parametrize(
    ("handler", "typed"),
    [
        (transfer, True),
        (pay, True),
        (ping, True),
        (Desk().sell, True),
        (metadata_first, False),
        (unannotated, False),
        (contract, False),
        (payload_alone, False),
        (Desk(), False),
    ],
)
def test_which_functions_have_parameters_of_their_own(handler, typed):
    assert is_function_listener(handler) is typed


class Other:
    pass


async def untyped(a: int, b, c: int) -> None: ...
async def many(*items: int) -> None: ...
async def more(**items: int) -> None: ...
async def anything(a: Any, b: int) -> None: ...
async def mapping(a: int, b: dict[str, int]) -> None: ...
async def foreign(a: Other) -> None: ...
async def unknown(a: "Missing") -> None: ...  # noqa: F821 - what is tried
async def silent(a: int): ...
async def addressed(a: int) -> HandlerResponse: ...
async def several(a: int) -> int | str: ...
async def method(self, a: int) -> None: ...
async def odd(a: int) -> dict[str, int]: ...
async def systems(a: int) -> SystemError: ...
async def stream(a: int) -> AsyncIterator[str]: ...
async def order(a: int) -> Order: ...
async def receipt(a: int) -> Receipt: ...
async def facet(a: Annotated[int, Len(1, 2)]) -> None: ...
async def full(a: list[str] = ["x"]) -> None: ...  # noqa: B006 - what is tried


async def yields(a: int) -> int:
    yield 1


async def yields_untyped(a: int):
    yield "a text"


@pytest.mark.parametrize(
    ("function", "parameter", "text"),
    [
        (untyped, "b", "parameter b has no type; write b: str"),
        (many, "items", "use one list, items: list[str]"),
        (more, "items", "use a parameter for each key"),
        (anything, "a", "name the type instead of Any"),
        (mapping, "b", "declare a dataclass with the keys"),
        (foreign, "a", "has a type without XSD form (Other); use str"),
        (unknown, "a", "import it at runtime, not under TYPE_CHECKING"),
        (silent, "return", "has no type; write -> None"),
        (addressed, "return", "await ask(...) or declare (payload, metadata) to address a peer"),
        (several, "return", "has several simple types; return a dataclass"),
        (method, "self", "belongs to a method; name the method of an instance"),
        (odd, "return", "its answer has a type without XSD form (dict); declare a dataclass"),
        (systems, "return", "belongs to the system; leave it out"),
        (stream, "return", "it does not yield; return one value"),
        (yields, "return", "write -> AsyncIterator[str | Receipt]"),
        (yields_untyped, "return", "has no type; write -> AsyncIterator[str | Receipt]"),
        (order, "", "derives Order, which is a class already; rename the function"),
        (receipt, "", "derives Receipt, which is a class already"),
        (facet, "a", "parameter a "),
        (full, "a", "use an empty one"),
    ],
)
def test_a_signature_that_cannot_be_typed(function, parameter, text):
    with pytest.raises(SignatureError) as raised:
        derive(function)
    assert raised.value.parameter == parameter
    assert text in str(raised.value)


def test_a_class_is_found_by_the_name_of_its_function_alone():
    module = ModuleType("bank")
    module.transfer, module.ping, module.Order, module.broken = transfer, ping, Order, 5
    assert find_derived_class(module, "Transfer") is payload_of(transfer)
    assert find_derived_class(module, "PingResult") is derive(ping).result
    assert find_derived_class(module, "TransferResult") is None
    assert find_derived_class(module, "Order") is None


@pytest.mark.parametrize("asked", ["Transfer", f"{__name__}.Missing", Order, len, unannotated])
def test_a_class_that_no_function_derives(asked):
    with pytest.raises(
        PayloadError, match=r"there is no function in|is not a function with typed parameters"
    ):
        payload_of(asked)


Iban = NewType("Iban", str)


def test_a_new_type_is_the_type_below_it():
    async def give(iban: Iban, others: list[Iban] = []) -> Iban:  # noqa: B006 - the form of a default list
        return Iban(f"{iban} {others}")

    payload = payload_of(give)
    codec = Codecs([payload]).of(payload)
    assert codec.decode(etree.fromstring(codec.encode(payload("a", ["b"])))) == payload("a", ["b"])
    assert derive(give).answer("a").value == "a"


def test_an_annotation_may_be_a_text_and_name_an_enclosing_variable():
    @dataclass(frozen=True)
    class Inner:
        a: int

    async def enclosed(a: "Inner", b: "collections.abc.Iterable | int" = 1) -> "Inner":
        return Inner(a.a)

    with pytest.raises(SignatureError, match="parameter b is a union"):
        derive(enclosed)

    async def kept(a: "Inner", b: int = 1) -> "Inner":
        return Inner(a.a + b)

    assert derive(kept).answers == (Inner,)
