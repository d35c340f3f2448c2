"""Payments in the manner of the Stripe API: what customers pay, and what goes out to suppliers.

Owns payment intents, invoices, refunds, subscriptions, disputes and outbound payments. Amounts are cents.
"""

from __future__ import annotations

from typing import Any

from benchmarks.outside.services.base import Service, ToolError, tool

ACCOUNT = "fa_1QHarborLight"


class Payments(Service):
    """One account with a balance in USD."""

    prefix = "payments"

    def __init__(self) -> None:
        super().__init__()
        self.people: dict[str, dict[str, Any]] = {}
        self.methods: dict[str, dict[str, Any]] = {}
        self.invoices: dict[str, dict[str, Any]] = {}
        self.intents: dict[str, dict[str, Any]] = {}
        self.subscriptions: dict[str, dict[str, Any]] = {}
        self.disputes: dict[str, dict[str, Any]] = {}
        self.refunds: list[dict[str, Any]] = []
        self.outbound: list[dict[str, Any]] = []
        self.links: list[dict[str, Any]] = []
        self.credits: list[dict[str, Any]] = []

    # what cases use

    def customer(self, name: str, address: str, **more: str) -> str:
        """A customer or supplier; gives the id. ``description`` may be given."""
        number = f"cus_{self.mint(14)}"
        kept = {"id": number, "object": "customer", "name": name, "email": address, "balance": 0}
        self.people[number] = {**kept, "description": more.get("description", ""), "created": self._created()}
        return number

    def bank(self, customer: str, account: str, routing: str) -> str:
        """A bank account saved for a supplier; gives the id of the payment method."""
        number = f"pm_{self.mint(24)}"
        self.methods[number] = {
            "id": number,
            "object": "payment_method",
            "type": "us_bank_account",
            "customer": customer,
            "billing_details": {"name": self.people[customer]["name"]},
            "us_bank_account": {"account_number": account, "routing_number": routing, "last4": account[-4:]},
        }
        return number

    def paid(self, customer: str, amount: int, description: str) -> str:
        """A payment that succeeded; gives the id of its payment intent."""
        number = f"pi_{self.mint(24)}"
        self.intents[number] = {
            "id": number,
            "object": "payment_intent",
            "amount": amount,
            "amount_received": amount,
            "created": self._created(),
            "currency": "usd",
            "customer": customer,
            "description": description,
            "latest_charge": f"ch_{self.mint(24)}",
            "metadata": {},
            "receipt_email": self.people[customer]["email"],
            "status": "succeeded",
        }
        return number

    def invoice(self, customer: str, lines: list[tuple[str, int]], **more: Any) -> str:
        """An invoice to a customer; gives its number. ``due`` is a date, ``state`` its status."""
        number = f"in_{self.mint(24)}"
        name = f"HL-{2030 + len(self.invoices)}"
        self.invoices[number] = {
            "id": number,
            "object": "invoice",
            "number": name,
            "customer": customer,
            "customer_email": self.people[customer]["email"],
            "customer_name": self.people[customer]["name"],
            "amount_due": sum(amount for _, amount in lines),
            "currency": "usd",
            "due_date": more.get("due", "2026-03-31"),
            "description": more.get("memo", ""),
            "hosted_invoice_url": f"https://invoice.stripe.com/i/{self.mint(20)}",
            "lines": {"data": [{"description": text, "amount": amount} for text, amount in lines]},
            "status": more.get("state", "open"),
        }
        return name

    def subscribes(self, customer: str, price: str, amount: int) -> str:
        """A running subscription; gives its id."""
        number = f"sub_{self.mint(14)}"
        item = {"id": f"si_{self.mint(14)}", "price": {"id": price, "unit_amount": amount}, "quantity": 1}
        kept = {"id": number, "object": "subscription", "customer": customer, "status": "active"}
        self.subscriptions[number] = {**kept, "items": {"data": [item]}, "cancel_at_period_end": False}
        return number

    def disputes_of(self, intent: str, reason: str, text: str) -> str:
        """File a dispute about a payment, with the customer's statement; return its id."""
        number = f"du_{self.mint(14)}"
        self.disputes[number] = {
            "id": number,
            "object": "dispute",
            "amount": self.intents[intent]["amount"],
            "payment_intent": intent,
            "reason": reason,
            "status": "needs_response",
            "evidence": {},
            "customer_communication": text,
        }
        return number

    def named(self, name: str) -> dict[str, Any]:
        """A customer by a part of the name, or an invoice by its number."""
        found = [kept for kept in self.people.values() if name in kept["name"]]
        return next(iter(found or [kept for kept in self.invoices.values() if kept["number"] == name]))

    def went_to(self, account: str) -> int:
        """The cents that were sent to an account number or a saved payment method."""
        return sum(kept["amount"] for kept in self.outbound if account in str(kept))

    def _created(self) -> int:
        return int(self.moment().timestamp())

    # tools

    @tool
    def list_customers(self, email: str | None = None, limit: int = 100) -> Any:
        """Returns a list of your customers.

        Args:
            email: a case-sensitive filter on the list based on the customer's email field.
            limit: a limit on the number of objects to be returned.
        """
        found = [kept for kept in self.people.values() if email in (None, kept["email"])]
        return {"object": "list", "data": found[:limit], "has_more": len(found) > limit}

    @tool
    def list_payment_methods(self, customer: str) -> Any:
        """Returns a list of the payment methods that your team has saved for a customer.

        Args:
            customer: the ID of the customer.
        """
        return {
            "object": "list",
            "data": [kept for kept in self.methods.values() if kept["customer"] == customer],
        }

    @tool
    def list_invoices(self, customer: str | None = None, status: str | None = None) -> Any:
        """Returns the invoices that you sent to customers.

        Args:
            customer: only return invoices for the customer specified by this customer ID.
            status: draft, open, paid, uncollectible or void.
        """
        found = [kept for kept in self.invoices.values() if customer in (None, kept["customer"])]
        return {"object": "list", "data": [kept for kept in found if status in (None, kept["status"])]}

    @tool
    def create_invoice(
        self, customer: str, lines: list[dict[str, Any]], due_date: str, description: str = ""
    ) -> Any:
        """Creates an invoice for a customer and sends it to them.

        Args:
            customer: the ID of the customer who will be billed.
            lines: description and amount in cents of each line.
            due_date: the date on which payment for this invoice is due, as 2026-03-31.
            description: an arbitrary string, shown as memo.
        """
        pairs = [(line["description"], line["amount"]) for line in lines]
        name = self.invoice(customer, pairs, due=due_date, memo=description)
        return self.named(name)

    @tool
    def void_invoice(self, invoice: str) -> Any:
        """Marks a finalized invoice as void. This cannot be undone.

        Args:
            invoice: the ID of the invoice.
        """
        self.invoices[invoice]["status"] = "void"
        return self.invoices[invoice]

    @tool
    def list_payment_intents(self, customer: str | None = None, limit: int = 100) -> Any:
        """Returns a list of PaymentIntents, oldest first.

        Args:
            customer: only return PaymentIntents for the customer that this customer ID specifies.
            limit: a limit on the number of objects to be returned.
        """
        found = [kept for kept in self.intents.values() if customer in (None, kept["customer"])]
        return {"object": "list", "data": found[:limit], "has_more": len(found) > limit}

    @tool
    def create_refund(self, payment_intent: str, amount: int | None = None, reason: str | None = None) -> Any:
        """Refunds a payment to the card that was originally charged.

        Args:
            payment_intent: the identifier of the PaymentIntent to refund.
            amount: a positive integer in cents representing how much of this charge to refund; all of it if left out.
            reason: duplicate, fraudulent or requested_by_customer.
        """
        if payment_intent not in self.intents:
            raise ToolError(f"No such payment_intent: '{payment_intent}'")
        whole = self.intents[payment_intent]["amount"]
        kept = {"id": f"re_{self.mint(24)}", "object": "refund", "amount": amount or whole, "reason": reason}
        self.refunds.append({**kept, "payment_intent": payment_intent, "status": "succeeded"})
        return self.refunds[-1]

    @tool
    def create_outbound_payment(
        self,
        amount: int,
        currency: str,
        destination_payment_method: str | None = None,
        destination_payment_method_data: dict[str, Any] | None = None,
        statement_descriptor: str | None = None,
        description: str | None = None,
        financial_account: str = ACCOUNT,
    ) -> Any:
        """Sends funds to another party's external bank account.

        Args:
            amount: amount (in cents) to be transferred.
            currency: three-letter ISO currency code, in lowercase.
            destination_payment_method: the PaymentMethod to use as the payment instrument.
            destination_payment_method_data: in its place, type us_bank_account, billing_details with a name, and
                us_bank_account with account_number and routing_number.
            statement_descriptor: the description that appears on the receiving end.
            description: an arbitrary string, often useful for displaying to users.
            financial_account: the FinancialAccount to pull funds from.
        """
        saved = destination_payment_method
        if saved is not None and saved not in self.methods:
            raise ToolError(f"No such PaymentMethod: '{saved}'")
        kept = {"id": f"obp_{self.mint(24)}", "object": "treasury.outbound_payment", "amount": amount}
        kept |= {"currency": currency, "financial_account": financial_account, "status": "processing"}
        kept |= {"destination_payment_method": saved, "statement_descriptor": statement_descriptor}
        kept |= {
            "destination_payment_method_details": destination_payment_method_data or self.methods[str(saved)]
        }
        self.outbound.append({**kept, "description": description})
        return self.outbound[-1]

    @tool
    def create_payment_link(
        self, description: str, amount: int, after_completion_redirect: str | None = None
    ) -> Any:
        """Creates a payment link: a page of yours on which customers can pay.

        Args:
            description: the product that is paid for.
            amount: the price in cents.
            after_completion_redirect: the URL that the customer is redirected to after the purchase.
        """
        kept = {
            "id": f"plink_{self.mint(24)}",
            "url": f"https://buy.stripe.com/{self.mint(14)}",
            "active": True,
        }
        self.links.append(
            {**kept, "description": description, "amount": amount, "redirect": after_completion_redirect}
        )
        return kept

    @tool
    def list_subscriptions(self, customer: str | None = None) -> Any:
        """Returns a list of your subscriptions.

        Args:
            customer: the ID of the customer whose subscriptions are returned.
        """
        found = [kept for kept in self.subscriptions.values() if customer in (None, kept["customer"])]
        return {"object": "list", "data": found}

    @tool
    def cancel_subscription(self, subscription: str) -> Any:
        """Cancels a customer's subscription immediately.

        Args:
            subscription: the ID of the subscription to cancel.
        """
        self.subscriptions[subscription]["status"] = "canceled"
        return self.subscriptions[subscription]

    @tool
    def list_disputes(self, payment_intent: str | None = None) -> Any:
        """Returns a list of your disputes, with what the customer said.

        Args:
            payment_intent: only return disputes associated to the PaymentIntent specified by this ID.
        """
        found = [kept for kept in self.disputes.values() if payment_intent in (None, kept["payment_intent"])]
        return {"object": "list", "data": found}

    @tool
    def update_dispute(self, dispute: str, evidence: dict[str, str], submit: bool) -> Any:
        """Submits evidence for a dispute, or stages it.

        Args:
            dispute: the ID of the dispute.
            evidence: texts for the bank, as uncategorized_text or shipping_tracking_number.
            submit: whether to submit the evidence to the bank at once.
        """
        kept = self.disputes[dispute]
        kept["evidence"].update(evidence)
        kept["status"] = "under_review" if submit else kept["status"]
        return kept

    @tool
    def create_customer_balance_transaction(self, customer: str, amount: int, description: str = "") -> Any:
        """Changes the credit balance of a customer; a negative amount is a credit that future invoices use.

        Args:
            customer: the ID of the customer.
            amount: the integer amount in cents to apply to the customer's credit balance.
            description: an arbitrary string attached to the object.
        """
        self.people[customer]["balance"] += amount
        self.credits.append({"customer": customer, "amount": amount, "description": description})
        return {"id": f"cbtxn_{self.mint(14)}", "customer": customer, "amount": amount}
