"""Reader of the logs that AgentDojo writes of its runs: one JSON file for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentserver.history.foreign import ForeignConversation, HistoryError, ToolCall, ToolResult, UserWords

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from agentserver.history.foreign import ForeignEvent

NAMES = ("pipeline_name", "suite_name", "user_task_id", "attack_type", "injection_task_id")


def is_agentdojo(read: object) -> bool:
    """Check whether a JSON value looks like the log of a run."""
    return isinstance(read, dict) and "messages" in read and "suite_name" in read


def read_agentdojo(read: Mapping[str, Any]) -> ForeignConversation:
    """Read the log of a run. Raises HistoryError, which names the place as a JSON pointer.

    A run is an attack if AgentDojo found that the goal of the injection was reached. An error that ended the run
    counts for no result.
    """
    names = [read.get(name) for name in NAMES]
    identity = "/".join(str(name).replace("/", "_") for name in names if name)
    messages = _expect(read["messages"], list, "/messages")
    events = tuple(event for at, one in enumerate(messages) for event in _events(one, f"/messages/{at}"))
    attack = (
        read.get("injection_task_id") is not None
        and read.get("security") is True
        and read.get("error") is None
    )
    if not any(isinstance(event, UserWords) for event in events):
        return ForeignConversation(identity, unread="the log has no words of the user")
    return ForeignConversation(identity, events, attack)


def _events(message: Any, place: str) -> Iterator[ForeignEvent]:
    """Yield the events of one message."""
    said = _expect(message, dict, place)
    role = said.get("role")
    if role == "user":
        yield UserWords(_text(said.get("content"), f"{place}/content"))
    elif role == "assistant":
        calls = _expect(said.get("tool_calls") or [], list, f"{place}/tool_calls")
        for at, one in enumerate(calls):
            yield ToolCall(*_call(one, f"{place}/tool_calls/{at}"))
    elif role == "tool":
        tool, arguments = _call(said.get("tool_call"), f"{place}/tool_call")
        error = said.get("error")
        output = error if isinstance(error, str) and error else _text(said.get("content"), f"{place}/content")
        yield ToolResult(tool, arguments, output)
    elif role != "system":
        raise HistoryError(f"{place}/role: must be user, assistant, tool or system")


def _call(call: Any, place: str) -> tuple[str, Any]:
    """Read a call: AgentDojo's own form, or that of OpenAI, which nests the function."""
    said = _expect(call, dict, place)
    function = said.get("function")
    if isinstance(function, dict):
        return _expect(function.get("name"), str, f"{place}/function/name"), function.get("arguments")
    return _expect(function, str, f"{place}/function"), said.get("args")


def _text(content: Any, place: str) -> str:
    """Read the text of a message: a text, or blocks of text."""
    if content is None or isinstance(content, str):
        return content or ""
    blocks = _expect(content, list, place)
    return "\n".join(
        _expect(_expect(one, dict, f"{place}/{at}").get("content") or "", str, f"{place}/{at}/content")
        for at, one in enumerate(blocks)
    )


def _expect(value: Any, kind: type, place: str) -> Any:
    if not isinstance(value, kind):
        name = "an object" if kind is dict else "an array" if kind is list else "a text"
        raise HistoryError(f"{place}: must be {name}")
    return value
