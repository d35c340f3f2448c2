"""Open approvals at the console: shows the questions, takes the answers.

The pump never waits for the terminal. Answers may also come from elsewhere: each is shown when it counts.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING

from agentserver.characters.printing import format_amount
from agentserver.core.decide import answers
from agentserver.core.records.audit import Event
from agentserver.core.records.wording import WORDING
from agentserver.core.state.approvals import Answer, ApprovalAnswer
from agentserver.gateways import approval_view
from agentserver.gateways.approval_view import ShownMessage
from agentserver.gateways.console.lines import ALWAYS
from agentserver.ports import EngineError, NoOutcomeError
from agentserver.trace.terminal import Style

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agentserver.core.records.audit import AuditRecord
    from agentserver.core.state.approvals import Approval
    from agentserver.gateways.console.session import ConsoleHost, ConsoleSession
    from agentserver.ports.records import Records
    from agentserver.trace.terminal import Line, Screen

SHORT = 6
"""Characters of an approval's id that name it, as long as they name no other one."""

_OUTCOMES = {Event.APPROVED: Style.GOOD, Event.WITHDRAWN: Style.WARN, Event.DROPPED: Style.DIM}

_GONE = "gone with its conversation or thread"


class Approvals:
    """An Approver that shows the open approvals of all conversations, and passes answers on.

    Args:
        host: the server.
        screen: where questions are shown.
        before: called before any output, so that earlier events are shown first.
        by: the person on the record.
        stirred: set when an approval is to be shown.
        paged: whether a long message is shown by pages, all of which a person must see before approving it.
    """

    def __init__(
        self,
        host: ConsoleHost,
        screen: Screen,
        before: Callable[[], None],
        by: str,
        stirred: asyncio.Event,
        *,
        paged: bool,
    ) -> None:
        self._paged = paged
        self._stirred = stirred
        self._seen: dict[str, set[int]] = {}
        self._traced: dict[str, list[Line]] = {}
        self._host = host
        self._screen = screen
        self._before = before
        self._by = by
        self._known: dict[str, Approval] = {}
        self._events: deque[tuple[Approval, AuditRecord | None]] = deque()
        self._news = asyncio.Event()
        self.stop = host.stream.attach(self._note)

    # For the pump: neither blocks nor raises

    def show(self, approval: Approval) -> None:
        """Queue an approval for display."""
        self._known[approval.delivery.id] = approval
        self._events.append((approval, None))
        self._news.set()
        self._stirred.set()

    def _note(self, records: Records) -> None:
        for record in records:
            if record.event in _OUTCOMES:
                approval = self._known.pop(record.delivery, None)
                self._seen.pop(record.delivery, None)
                self._traced.pop(record.delivery, None)
                if approval is not None:
                    self._events.append((approval, record))
                    self._news.set()

    # For the session

    async def watch(self) -> None:
        """Show questions and outcomes as they come, until cancelled."""
        while True:
            await self._news.wait()
            self.flush()

    def flush(self) -> None:
        """Show everything so far."""
        self._before()
        self._news.clear()
        while self._events:
            approval, record = self._events.popleft()
            if record is None:
                self._show(approval, 0, brief=True)
            else:
                outcome = WORDING.first(record.detail) or _GONE
                self._screen.say(f"approval {self._shorten_id(approval)}: {outcome}", _OUTCOMES[record.event])

    def list_ids(self) -> list[str]:
        """List the short ids of open approvals."""
        return [self._shorten_id(one) for one in self._known.values()]

    def only_asks(self, session: ConsoleSession) -> bool:
        """Tell whether all that runs in a conversation waits for approvals that are shown here."""
        conversation = self._host.conversation(session.handle.id) if self._known else None
        if conversation is None or len(conversation.requests) != session.running:
            return False
        approvals = conversation.approvals()
        working = any(thread.inbox for thread in conversation.tree.nodes.values())
        return bool(approvals) and not working and all(one.delivery.id in self._known for one in approvals)

    # Commands

    def tell(self, words: str) -> str:
        """Show the list, or a page of one: the first unseen one by default. Returns the mistake in the command."""
        self.flush()
        prefix, *rest = words.split() or [""]
        if not prefix:
            lines = [approval_view.format_waiting_line(self._to_shown(one)) for one in self._known.values()]
            self._screen.show(*(lines or [((Style.DIM, "nothing waits for an approval"),)]))
            return ""
        found = self._find(prefix)
        if isinstance(found, str):
            return found
        total = len(self._split_pages(found))
        page = rest[0] if rest else str(min(self._list_unseen_pages(found), default=0) + 1)
        if len(rest) > 1 or not (page.isascii() and page.isdigit() and 1 <= int(page[:9]) <= total):
            return f"say /approvals {self._shorten_id(found)} PAGE, of {total}"
        self._show(found, int(page) - 1)
        return ""

    def _show(self, approval: Approval, page: int, *, brief: bool = False) -> None:
        """Show a page of a message, with the reasons before the first and how to answer after the last."""
        key, pages = self._shorten_id(approval), self._split_pages(approval)
        command = f"/approvals {key}"
        if not page:
            self._screen.show(approval_view.head_line(self._to_shown(approval)))
            self._screen.show(*approval_view.format_reasons(approval, command if brief else ""))
        self._screen.show(*pages[page], whole=True)
        if approval.delivery.id not in self._known:
            return  # it was answered in the meantime, and the answer is shown next
        self._seen.setdefault(approval.delivery.id, set()).add(page)
        place = f"  (page {page + 1} of {len(pages)}) " if len(pages) > 1 else "  "
        answers = f"/approve {key}, /approve {key} {ALWAYS}, or /deny {key}"
        if self._list_unseen_pages(approval):
            answers = f"{command} shows the next page; it cannot be approved before; or /deny {key}"
        self._screen.say(f"{place}{answers}", Style.DIM)

    def _split_pages(self, approval: Approval) -> list[Sequence[Line]]:
        """Split the text of the message into pages; a script gets one page."""
        *message, digest = approval_view.format_message_lines(
            approval, self._host.rules.codecs, self._screen.redact
        )
        lines = [*message, *self._format_origins(approval), digest]
        return approval_view.split_pages(lines) if self._paged else [lines]

    def _format_origins(self, approval: Approval) -> list[Line]:
        """Format the origins of its values, cached so that its pages stay the same."""
        delivery = approval.delivery
        if delivery.id not in self._traced:
            conversation = self._host.conversation(delivery.conversation)
            found = None if conversation is None else self._host.rules.origins(conversation, delivery)
            lines = approval_view.format_origin_lines(found, self._screen.redact)
            if delivery.id not in self._known:
                return lines
            self._traced[delivery.id] = lines
        return self._traced[delivery.id]

    def _list_unseen_pages(self, approval: Approval) -> set[int]:
        """Return the pages that were not shown."""
        return set(range(len(self._split_pages(approval)))) - self._seen.get(approval.delivery.id, set())

    def _reason_barred(self, approval: Approval) -> str:
        """Return the reason why it cannot be approved here and now; empty without one."""
        unseen = self._list_unseen_pages(approval)
        if unseen:
            key, page = self._shorten_id(approval), min(unseen) + 1
            were = "was" if len(unseen) == 1 else "were"
            pages = format_amount(len(unseen), "page")
            return f"{pages} of it {were} not shown: /approvals {key} {page} shows the next one"
        conversation = self._host.conversation(approval.delivery.conversation)
        return (
            ""
            if conversation is None
            else answers.bar_approver(conversation, self._by, self._host.rules, approval.delivery.to)
        )

    async def answer(self, words: str, answer: Answer, *, unnamed: bool = False) -> str:
        """Answer an approval; returns the mistake in the command.

        Args:
            words: an id, optionally followed by ``always``.
            answer: the decision.
            unnamed: whether the id may be omitted if only one is open. A person must give it: another one may have
                taken its place while they typed.
        """
        prefix, *rest = words.split() or [""]
        if prefix == ALWAYS:
            prefix, rest = "", [ALWAYS, *rest]
        if rest and (answer is Answer.DENY or rest != [ALWAYS]):
            return f"say /deny ID, /approve ID or /approve ID {ALWAYS}"
        if not (prefix or unnamed):
            return "say which: /approvals lists them"
        found = self._find(prefix)
        if isinstance(found, str):
            return found
        if prefix and len(prefix) < SHORT:  # what was meant may be gone, and this another one
            return f"{prefix} is too short to be sure: say {self._shorten_id(found)}"
        self.flush()
        reason = "" if answer is Answer.DENY else self._reason_barred(found)
        if reason:
            return reason
        return await self._give(found, Answer.ALWAYS if rest else answer)

    async def _give(self, found: Approval, answer: Answer) -> str:
        """Give an answer; gives why it does not count, or is not known to."""
        answered = ApprovalAnswer(found.id, found.digest, answer, self._by)
        try:
            spent = await self._host.answer(found.delivery.conversation, answered)
        except NoOutcomeError as unheard:
            return str(unheard)
        except EngineError:
            return "it cannot be kept at present: say it again later"
        self.flush()
        return "" if spent else "it is no longer open"

    def _find(self, prefix: str) -> Approval | str:
        found = [one for one in self._known.values() if one.id.startswith(prefix)]
        if len(found) == 1:
            return found[0]
        about = f" under {prefix}" if prefix else ""
        return f"{len(found) or 'no'} messages wait for an approval{about}"

    def _to_shown(self, approval: Approval) -> ShownMessage:
        until = time.localtime(
            approval.at + self._host.rules.blueprint.find_approval_time(approval.delivery.to)
        )
        return ShownMessage(self._shorten_id(approval), approval, time.strftime("%H:%M:%S", until))

    def _shorten_id(self, approval: Approval) -> str:
        key = approval.id
        others = [one.id for one in self._known.values() if one.id != key]
        lengths = range(SHORT, len(key))
        return next((key[:n] for n in lengths if not any(one.startswith(key[:n]) for one in others)), key)
