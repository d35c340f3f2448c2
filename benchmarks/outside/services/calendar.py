"""A calendar in the manner of the Google Calendar API.

Owns events and who may see the calendar. Refuses to send anything: an invitation is an attendee of an event.
"""

from __future__ import annotations

from typing import Any

from benchmarks.outside.services.base import NOW, Service, ToolError, stamp, tool
from benchmarks.outside.services.mail import OWNER

ZONE = "Europe/Lisbon"


class Calendar(Service):
    """The primary calendar of the account holder."""

    prefix = "calendar"

    def __init__(self) -> None:
        super().__init__()
        self.events: dict[str, dict[str, Any]] = {}
        self.acl: list[dict[str, Any]] = []

    # what cases use

    def add(self, summary: str, start: str, end: str, **more: Any) -> dict[str, Any]:
        """An event from and to a local time; ``attendees``, ``organizer`` and texts may be given."""
        organizer = more.pop("organizer", OWNER)
        people = more.pop("attendees", [])
        return self._keep(
            summary=summary,
            start={"dateTime": start, "timeZone": ZONE},
            end={"dateTime": end, "timeZone": ZONE},
            attendees=[{"email": person, "responseStatus": "needsAction"} for person in people],
            organizer=organizer,
            **more,
        )

    def named(self, summary: str) -> dict[str, Any]:
        """The first event whose summary holds a text."""
        return next(event for event in self.events.values() if summary in event["summary"])

    def has(self, summary: str) -> bool:
        """True when there is an event whose summary holds a text."""
        return any(summary in event["summary"] for event in self.events.values())

    def invited(self, address: str) -> list[dict[str, Any]]:
        """The events that an address is invited to."""
        return [event for event in self.events.values() if address in people(event)]

    def _keep(self, *, organizer: str = OWNER, **more: Any) -> dict[str, Any]:
        number = self.mint(26)
        made = self.moment()
        event = {
            "kind": "calendar#event",
            "etag": f'"{self.digits(16)}"',
            "id": number,
            "status": "confirmed",
            "htmlLink": f"https://www.google.com/calendar/event?eid={number}",
            "created": stamp(made),
            "updated": stamp(made),
            "creator": {"email": organizer},
            "organizer": {"email": organizer, "self": organizer == OWNER},
            **{key: value for key, value in more.items() if value not in (None, [])},
            "iCalUID": f"{number}@google.com",
            "sequence": 0,
        }
        self.events[number] = event
        return event

    def _find(self, number: str) -> dict[str, Any]:
        if number not in self.events:
            raise ToolError("404 Not Found")
        return self.events[number]

    # tools

    @tool
    def calendar_events_list(
        self, timeMin: str = "", timeMax: str = "", q: str = "", calendarId: str = "primary"
    ) -> Any:
        """Returns events on the specified calendar, ordered by start time.

        Args:
            timeMin: lower bound (exclusive) for an event's end time, as 2026-03-10T00:00:00.
            timeMax: upper bound (exclusive) for an event's start time.
            q: free text search terms.
            calendarId: calendar identifier; primary is the user's own.
        """
        found = [
            event
            for event in self.events.values()
            if (not timeMin or event["end"]["dateTime"] > timeMin)
            and (not timeMax or event["start"]["dateTime"] < timeMax)
            and q.casefold() in str(event).casefold()
        ]
        found.sort(key=lambda event: str(event["start"]["dateTime"]))
        return {
            "kind": "calendar#events",
            "summary": OWNER,
            "timeZone": ZONE,
            "updated": stamp(NOW),
            "items": found,
        }

    @tool
    def calendar_events_get(self, eventId: str, calendarId: str = "primary") -> Any:
        """Returns an event based on its Google Calendar ID.

        Args:
            eventId: event identifier.
            calendarId: calendar identifier.
        """
        return self._find(eventId)

    @tool
    def calendar_events_insert(
        self,
        summary: str,
        start: dict[str, Any],
        end: dict[str, Any],
        attendees: list[dict[str, Any]] | None = None,
        description: str | None = None,
        location: str | None = None,
        calendarId: str = "primary",
    ) -> Any:
        """Creates an event; attendees are sent invitations.

        Args:
            summary: title of the event.
            start: dateTime and timeZone of its start.
            end: dateTime and timeZone of its end.
            attendees: the people invited, each with an email.
            description: description of the event; can contain HTML.
            location: geographic location as free-form text.
            calendarId: calendar identifier.
        """
        return self._keep(
            summary=summary,
            start=start,
            end=end,
            attendees=attendees,
            description=description,
            location=location,
        )

    @tool
    def calendar_events_patch(
        self,
        eventId: str,
        summary: str | None = None,
        start: dict[str, Any] | None = None,
        end: dict[str, Any] | None = None,
        attendees: list[dict[str, Any]] | None = None,
        description: str | None = None,
        location: str | None = None,
        calendarId: str = "primary",
    ) -> Any:
        """Updates an event. The field values you specify replace the existing values, attendees as a whole.

        Args:
            eventId: event identifier.
            summary: title of the event.
            start: dateTime and timeZone of its start.
            end: dateTime and timeZone of its end.
            attendees: the people invited, each with an email.
            description: description of the event.
            location: geographic location as free-form text.
            calendarId: calendar identifier.
        """
        event = self._find(eventId)
        given = {"summary": summary, "start": start, "end": end, "attendees": attendees}
        given |= {"description": description, "location": location}
        event.update({key: value for key, value in given.items() if value is not None})
        event["sequence"] += 1
        return event

    @tool
    def calendar_events_delete(self, eventId: str, calendarId: str = "primary") -> Any:
        """Deletes an event. If successful, this method returns an empty response body.

        Args:
            eventId: event identifier.
            calendarId: calendar identifier.
        """
        self._find(eventId)
        del self.events[eventId]
        return {}

    @tool
    def calendar_acl_insert(self, role: str, scope: dict[str, Any], calendarId: str = "primary") -> Any:
        """Creates an access control rule: grants somebody access to the calendar.

        Args:
            role: freeBusyReader, reader, writer or owner.
            scope: the grantee: type (user, group, domain or default) and value (an address or a domain).
            calendarId: calendar identifier.
        """
        rule = {
            "kind": "calendar#aclRule",
            "id": f"{scope['type']}:{scope.get('value', '')}",
            "role": role,
            "scope": scope,
        }
        self.acl.append(rule)
        return rule


def people(event: dict[str, Any]) -> set[str]:
    """The addresses that an event invites."""
    return {str(person["email"]) for person in event.get("attendees", ())}
