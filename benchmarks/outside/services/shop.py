"""A shop in the manner of the Shopify Admin API, seen from its merchant.

Owns orders, products, customers and refunds. Amounts are decimal strings in the shop's currency.
"""

from __future__ import annotations

from typing import Any

from benchmarks.outside.services.base import Service, ToolError, stamp, tool


class Shop(Service):
    """The admin of one shop; its currency is EUR."""

    prefix = "shop"

    def __init__(self) -> None:
        super().__init__()
        self.kept_orders: dict[str, dict[str, Any]] = {}
        self.kept_products: dict[str, dict[str, Any]] = {}
        self.kept_customers: dict[str, dict[str, Any]] = {}
        self.reviews: list[dict[str, Any]] = []
        self.refunds: list[dict[str, Any]] = []
        self.discounts: list[dict[str, Any]] = []
        self.gift_cards: list[dict[str, Any]] = []
        self.webhooks: list[dict[str, Any]] = []
        self.drafts: list[dict[str, Any]] = []

    # what cases use

    def customer(self, name: str, address: str, **more: str) -> str:
        """A customer; gives the id. ``note`` may be given."""
        number = f"gid://shopify/Customer/{self.digits()}"
        kept = {"id": number, "displayName": name, "email": address, "note": more.get("note", "")}
        self.kept_customers[number] = {**kept, "numberOfOrders": "0", "tags": []}
        return number

    def order(self, customer: str, lines: list[tuple[str, int, str]], **more: Any) -> str:
        """An order; gives its name, as ``#1041``. Lines are title, quantity and unit price; ``note`` may be given."""
        number = f"gid://shopify/Order/{self.digits()}"
        name = f"#{1041 + len(self.kept_orders)}"
        buyer = self.kept_customers[customer]
        total = sum(count * float(price) for _, count, price in lines)
        nodes = [
            {
                "id": f"gid://shopify/LineItem/{self.digits(14)}",
                "title": title,
                "quantity": count,
                "originalUnitPriceSet": money(price),
            }
            for title, count, price in lines
        ]
        self.kept_orders[number] = {
            "id": number,
            "name": name,
            "createdAt": more.get("createdAt", stamp(self.moment())),
            "cancelledAt": None,
            "displayFinancialStatus": more.get("paid", "PAID"),
            "displayFulfillmentStatus": more.get("sent", "UNFULFILLED"),
            "totalPriceSet": money(f"{total:.2f}"),
            "note": more.get("note", ""),
            "tags": [],
            "customer": {key: buyer[key] for key in ("id", "displayName", "email")},
            "shippingAddress": {
                "name": buyer["displayName"],
                "address1": more.get("address", "Rua das Flores 12"),
                "zip": more.get("zip", "1200-195"),
                "countryCodeV2": more.get("country", "PT"),
            },
            "lineItems": {"nodes": nodes},
        }
        return name

    def product(self, title: str, price: str, stock: int, **more: str) -> str:
        """A product with one variant; gives its id. ``description`` and ``vendor`` may be given."""
        number = f"gid://shopify/Product/{self.digits()}"
        self.kept_products[number] = {
            "id": number,
            "title": title,
            "handle": title.lower().replace(" ", "-"),
            "descriptionHtml": more.get("description", ""),
            "vendor": more.get("vendor", "Harborlight"),
            "status": "ACTIVE",
            "totalInventory": stock,
            "variants": {"nodes": [{"id": f"gid://shopify/ProductVariant/{self.digits()}", "price": price}]},
        }
        return number

    def review(self, product: str, author: str, text: str, stars: int) -> None:
        """A review that a visitor wrote."""
        self.reviews.append(
            {"id": self.digits(9), "productId": product, "author": author, "bodyText": text, "stars": stars}
        )

    def named(self, name: str) -> dict[str, Any]:
        """An order by its name, a product or customer by a part of theirs."""
        everything = [*self.kept_orders.values(), *self.kept_products.values(), *self.kept_customers.values()]
        return next(
            kept
            for kept in everything
            if name in (kept.get("name") or kept.get("title") or kept["displayName"])
        )

    def refunded(self, name: str) -> float:
        """The sum of the refunds of an order."""
        number = self.named(name)["id"]
        return sum(float(refund["amount"]) for refund in self.refunds if refund["orderId"] == number)

    def _order(self, number: str) -> dict[str, Any]:
        if number not in self.kept_orders:
            raise ToolError("Order does not exist")
        return self.kept_orders[number]

    # tools

    @tool
    def orders(self, query: str = "", first: int = 20) -> Any:
        """Returns a list of orders placed in the store, oldest first, in the form of the Admin API.

        Args:
            query: a filter made up of terms, as "name:#1041" or "fulfillment_status:unfulfilled".
            first: the first n elements.
        """
        found = [kept for kept in self.kept_orders.values() if _fits(kept, query)]
        return {"orders": {"nodes": found[:first]}}

    @tool
    def order_by_id(self, id: str) -> Any:
        """Returns an Order resource by ID.

        Args:
            id: the ID of the Order to return.
        """
        return {"order": self._order(id)}

    @tool
    def orderUpdate(
        self,
        id: str,
        note: str | None = None,
        tags: list[str] | None = None,
        shippingAddress: dict[str, str] | None = None,
    ) -> Any:
        """Updates the attributes of an order, such as its note, tags and shipping address.

        Args:
            id: the ID of the order to update.
            note: the new contents for the note.
            tags: the new tags.
            shippingAddress: the new shipping address: name, address1, zip, countryCodeV2.
        """
        order = self._order(id)
        given = {"note": note, "tags": tags}
        order.update({key: value for key, value in given.items() if value is not None})
        order["shippingAddress"].update(shippingAddress or {})
        return {"order": order, "userErrors": []}

    @tool
    def orderCancel(self, orderId: str, reason: str, refund: bool, staffNote: str | None = None) -> Any:
        """Cancels an order, with options for refunding.

        Args:
            orderId: the ID of the order to be canceled.
            reason: CUSTOMER, DECLINED, FRAUD, INVENTORY, STAFF or OTHER.
            refund: whether to refund the amount paid by the customer.
            staffNote: a staff-facing note about the cancellation; not visible to the customer.
        """
        self._order(orderId)["cancelledAt"] = stamp(self.moment())
        return {"job": {"id": self.mint(8), "done": True}, "orderCancelUserErrors": []}

    @tool
    def refundCreate(
        self, orderId: str, amount: str, currencyCode: str = "EUR", note: str | None = None
    ) -> Any:
        """Creates a refund for an order, paid back to the payment method of the order.

        Args:
            orderId: the ID of the order that is being refunded.
            amount: the decimal amount to refund.
            currencyCode: the currency.
            note: an optional note that is attached to the refund.
        """
        self._order(orderId)
        refund = {
            "id": f"gid://shopify/Refund/{self.digits()}",
            "orderId": orderId,
            "amount": amount,
            "note": note,
        }
        self.refunds.append({**refund, "currencyCode": currencyCode})
        return {"refund": {"id": refund["id"], "totalRefundedSet": money(amount)}, "userErrors": []}

    @tool
    def draftOrderCreate(
        self,
        customerId: str,
        lineItems: list[dict[str, Any]],
        note: str | None = None,
        email: str | None = None,
    ) -> Any:
        """Creates a draft order; an invoice for it goes to the customer.

        Args:
            customerId: the customer who will be sent an invoice.
            lineItems: variantId and quantity of each line.
            note: the text of an optional note.
            email: the address that the invoice is sent to, if not the customer's.
        """
        draft = {"id": f"gid://shopify/DraftOrder/{self.digits()}", "customerId": customerId}
        self.drafts.append({**draft, "lineItems": lineItems, "note": note, "email": email})
        return {"draftOrder": {"id": draft["id"], "status": "OPEN"}, "userErrors": []}

    @tool
    def products(self, query: str = "", first: int = 20) -> Any:
        """Retrieves a list of products in a store.

        Args:
            query: a filter made up of terms.
            first: the first n elements.
        """
        found = [kept for kept in self.kept_products.values() if _fits(kept, query)]
        return {"products": {"nodes": found[:first]}}

    @tool
    def product_reviews(self, productId: str) -> Any:
        """Returns the published reviews of a product, as visitors of the shop wrote them.

        Args:
            productId: the ID of the product.
        """
        return {
            "productReviews": {"nodes": [kept for kept in self.reviews if kept["productId"] == productId]}
        }

    @tool
    def productUpdate(self, id: str, descriptionHtml: str | None = None, status: str | None = None) -> Any:
        """Updates a product.

        Args:
            id: the ID of the product to update.
            descriptionHtml: the description of the product, with HTML tags.
            status: ACTIVE, ARCHIVED or DRAFT.
        """
        kept = self.kept_products[id]
        given = {"descriptionHtml": descriptionHtml, "status": status}
        kept.update({key: value for key, value in given.items() if value is not None})
        return {"product": kept, "userErrors": []}

    @tool
    def productVariantsBulkUpdate(self, productId: str, variants: list[dict[str, str]]) -> Any:
        """Updates multiple product variants for a single product.

        Args:
            productId: the ID of the product associated with the variants to update.
            variants: the ID and the new price of each variant.
        """
        for variant in self.kept_products[productId]["variants"]["nodes"]:
            variant.update(next((given for given in variants if given["id"] == variant["id"]), {}))
        return {"product": self.kept_products[productId], "userErrors": []}

    @tool
    def inventoryAdjustQuantities(self, productId: str, delta: int, reason: str = "correction") -> Any:
        """Adjusts the available inventory of a product by a difference.

        Args:
            productId: the ID of the product.
            delta: the amount by which the quantity is changed.
            reason: correction, received, damaged or other.
        """
        self.kept_products[productId]["totalInventory"] += delta
        return {"inventoryAdjustmentGroup": {"reason": reason}, "userErrors": []}

    @tool
    def customers(self, query: str = "", first: int = 20) -> Any:
        """Returns a list of customers in the store.

        Args:
            query: a filter made up of terms, as "email:someone@example.com".
            first: the first n elements.
        """
        found = [kept for kept in self.kept_customers.values() if _fits(kept, query)]
        return {"customers": {"nodes": found[:first]}}

    @tool
    def customerUpdate(self, id: str, email: str | None = None, note: str | None = None) -> Any:
        """Updates a customer.

        Args:
            id: the ID of the customer to update.
            email: the unique email address of the customer.
            note: a note about the customer.
        """
        kept = self.kept_customers[id]
        given = {"email": email, "note": note}
        kept.update({key: value for key, value in given.items() if value is not None})
        return {"customer": kept, "userErrors": []}

    @tool
    def discountCodeBasicCreate(self, code: str, percentage: float, endsAt: str | None = None) -> Any:
        """Creates a code discount: a percentage off for customers who enter it at checkout.

        Args:
            code: the code that customers use to apply the discount.
            percentage: the percentage of the price, from 0 to 1.
            endsAt: the date and time when the discount expires.
        """
        self.discounts.append({"code": code, "percentage": percentage, "endsAt": endsAt})
        return {
            "codeDiscountNode": {"id": f"gid://shopify/DiscountCodeNode/{self.digits()}"},
            "userErrors": [],
        }

    @tool
    def giftCardCreate(self, initialValue: str, customerId: str, note: str | None = None) -> Any:
        """Creates a gift card and sends its code to a customer.

        Args:
            initialValue: the initial value of the gift card.
            customerId: the ID of the customer who will receive the gift card.
            note: the note associated with the gift card, not visible to the customer.
        """
        self.gift_cards.append({"initialValue": initialValue, "customerId": customerId, "note": note})
        return {"giftCard": {"id": f"gid://shopify/GiftCard/{self.digits()}"}, "userErrors": []}

    @tool
    def webhookSubscriptionCreate(self, topic: str, callbackUrl: str) -> Any:
        """Creates a webhook subscription: events of the shop are posted to a URL.

        Args:
            topic: the event type that triggers the webhook, as ORDERS_CREATE.
            callbackUrl: the URL where the webhook subscription should send the POST request.
        """
        self.webhooks.append({"topic": topic, "callbackUrl": callbackUrl})
        return {
            "webhookSubscription": {"id": f"gid://shopify/WebhookSubscription/{self.digits()}"},
            "userErrors": [],
        }


def money(amount: str) -> dict[str, dict[str, str]]:
    """An amount in the form of the Admin API."""
    return {"shopMoney": {"amount": amount, "currencyCode": "EUR"}}


def _fits(kept: dict[str, Any], query: str) -> bool:
    everything = str(kept).casefold()
    values = [term.partition(":")[2] or term for term in query.casefold().split()]
    return all(value.strip("'\"") in everything for value in values)
