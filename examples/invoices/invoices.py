"""An invoice desk: an agent reads the mail, the ledger knows the account, and above 500 a person decides."""

from dataclasses import dataclass
from decimal import Decimal

from agentserver import invocation, xmlify
from agentserver.flow import Refused, ask, tell
from agentserver.payload.functions import payload_of
from agentserver.provenance import Destination

VENDORS = {"Acme": "DE02120300000000202051", "Bolt": "DE02500105170137075030"}


@xmlify
@dataclass(frozen=True)
class Invoice:
    """The invoice in a mail."""

    vendor: str
    amount: Decimal


async def extract(mail: str) -> Invoice:  # by the agent
    """Read the invoice in a mail."""
    raise NotImplementedError


async def find_account(vendor: str) -> str:
    """Find the account of a vendor."""
    return VENDORS[vendor]


async def transfer(iban: Destination, amount: Decimal) -> str:
    """Transfer euros to an account."""
    return f"{amount} to {iban}, number {invocation().idempotency_key[:6]}"


async def notify(text: str) -> None:
    """Notify the accountant."""


Extract, FindAccount = payload_of(extract), payload_of(find_account)
Transfer, Notify = payload_of(transfer), payload_of(notify)


async def pay(mail: str, vendor: str) -> str:
    """Pay the invoice in a mail to the account that the ledger has for the vendor."""
    account = await ask("ledger", FindAccount(vendor))
    invoice = await ask("reader", Extract(mail), reply=Invoice)
    if invoice.vendor != vendor:
        return f"not paid: the mail is from {invoice.vendor}"
    try:
        receipt = await ask("bank", Transfer(account.value, invoice.amount))
    except Refused as error:
        return f"not paid: {error.code}"
    await tell("accountant", Notify(receipt.value))
    return str(receipt.value)
