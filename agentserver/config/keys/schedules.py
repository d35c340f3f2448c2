"""Keys below ``schedules:``, for messages that the server sends at set times."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from agentserver.config.keys.fields import Dotted, Line, Name, Retention, Strict
from agentserver.ports.schedules import CatchUp, Overlap  # noqa: TC001 - pydantic reads it


class ScheduleEntry(Strict):
    """Message that the server sends at each due time, once over all servers."""

    name: Name = Field(description="Part of the ids of its messages; their principal is schedule-NAME.")
    listener: Name = Field(description="The listener that gets the messages.")
    payload: Dotted | None = Field(
        default=None,
        description="Dotted path of the @xmlify class of its message. Optional if the listener takes only one.",
    )
    fields: dict[Name, Any] = Field(
        default_factory=dict, max_length=1000, description="The values of the payload's fields."
    )
    every: Retention | None = Field(
        default=None,
        description="Interval between due times in whole seconds, such as 15m. They are multiples of it from the start "
        "of 1970 in UTC.",
        examples=["15m", "1h"],
    )
    cron: Line | None = Field(
        default=None,
        description="Minute, hour, day of the month, month and day of the week, as cron has them. Needs the extra "
        "schedules.",
        examples=["0 7 * * 1-5"],
    )
    zone: Line | None = Field(
        default=None,
        description="Time zone of cron, such as Europe/Berlin; UTC by default.",
        examples=["Europe/Berlin"],
    )
    principal: Name | None = Field(
        default=None, description="Owner of its conversations; schedule-NAME by default."
    )
    trust: Literal["orders", "relay", "stranger"] = Field(
        default="orders",
        description="The trust in its values: orders, since the file is the operator's; relay; or stranger.",
    )
    overlap: Overlap = Field(
        default="skip",
        description="A due time while the message of the previous one is in progress: skip drops it, queue"
        " lets it wait.",
    )
    catch_up: CatchUp = Field(
        default="last",
        description="Due times that passed while no server ran: last sends the latest, all sends each (at most 1000), "
        "none sends none that is more than a minute late.",
    )
