"""Todos and held replies inside a conversation, where they meet refusals, answers and closing."""

from __future__ import annotations

from agentserver import HandlerResponse, TodoClosed, TodoComplete, TodoRegistered, TodoUntil
from agentserver.contract import Code
from agentserver.core.refusals import make_system_error
from agentserver.core.state.todos import WATCHERS
from tests.core.paper import Answer, Ask, Paper, listener, rules

respond = HandlerResponse.respond


def to(name, payload=None):
    return HandlerResponse(payload or Ask("go"), name)


def answer(call):
    return respond(Answer(f"re: {call.payload.text}"))


def await_answer(**more):
    return to("system.todo", TodoUntil(**{"wait_for": Answer, "count": 2, "hold": True, **more}))


def desk(a, *peers, **handlers):
    peers = peers or ("b", "c")
    paper = Paper(
        rules(listener("a", *peers), *map(listener, peers)),
        {"a": a, **dict.fromkeys(peers, answer), **handlers},
    )
    paper.say(Ask("hi"), "a")
    return paper


def texts(paper):
    return [getattr(payload, "text", "-") for payload in paper.seen("a")]


def test_held_replies_come_in_the_order_of_the_calls_when_a_dormant_thread_is_called_last():
    def a(call):
        match call.payload:
            case Ask():
                return to("b", Ask("first"))
            case Answer("re: first"):
                return [await_answer(), to("c", Ask("1")), to("b", Ask("2"))]
        return None

    assert texts(desk(a).run()) == ["hi", "re: first", "-", "re: 1", "re: 2"]


def test_several_replies_of_one_call_stay_together_in_their_order():
    def a(call):
        return (
            [await_answer(count=3), to("b", Ask("1")), to("c", Ask("2"))]
            if call.payload == Ask("hi")
            else None
        )

    def answer_twice(call):
        return [answer(call), respond(Answer("and"))]

    paper = desk(a, b=answer_twice)
    paper.step()
    while any(delivery.to != "a" for delivery in paper.waiting):
        paper.step(max(i for i, delivery in enumerate(paper.waiting) if delivery.to != "a"))
    assert texts(paper.run()) == ["hi", "-", "re: 1", "and", "re: 2"]


def test_a_refusal_of_ones_own_message_arrives_at_once_and_is_no_reply():
    def a(call):
        match call.payload:
            case Ask():
                return await_answer(count=1)
            case TodoRegistered():
                return [to("b", Ask("1")), to("nobody")]
            case Answer():
                return None
        return to("b", Ask("2"))

    paper = desk(a)
    for _ in range(3):
        paper.step()
    assert paper.seen("a")[2:] == [make_system_error(Code.ROUTING)]
    assert paper.calls[-1][1].metadata.todo_nudge == ""
    paper.run()
    assert texts(paper)[3:] == ["re: 2"]
    assert paper.calls[-1][1].metadata.todo_nudge


def test_closing_a_todo_releases_its_replies():
    def a(call):
        match call.payload:
            case Ask():
                return [await_answer(), to("b", Ask("1")), to("c", Ask("2"))]
            case TodoRegistered():
                return None if paper.late else to("system.todo", TodoComplete(call.payload.watcher_id))
            case TodoClosed():
                return None
        return None

    paper = desk(a)
    paper.late = False
    paper.step()
    paper.step([d.to for d in paper.waiting].index("b"))
    assert [d.to for d in paper.waiting] == ["a", "c"]
    paper.step()
    assert [d.to for d in paper.waiting] == ["c", "a"]
    (thread,) = (node for node in paper.conversation.tree.nodes.values() if node.owner == "a")
    assert [(d.sender, thread.held_deliveries) for d in thread.inbox] == [("b", ()), ("system.todo", ())]


def test_closing_a_todo_in_the_handler_releases_its_replies_as_well():
    def a(call):
        match call.payload:
            case Ask():
                return [
                    await_answer(count=1, hold=False),
                    await_answer(),
                    to("b", Ask("1")),
                    to("c", Ask("2")),
                ]
            case TodoRegistered() if len(paper.seen("a")) == 3:
                assert call.todos.close(call.payload.watcher_id)
        return None

    paper = desk(a)
    paper.step()
    paper.step([d.to for d in paper.waiting].index("b"))
    paper.step([d.to for d in paper.waiting].index("a"))
    assert texts(paper) == ["hi", "-"]
    paper.step([d.to for d in paper.waiting].index("a"))
    paper.step([d.to for d in paper.waiting].index("a"))
    assert texts(paper) == ["hi", "-", "-", "re: 1"]


def test_who_has_answered_does_not_hold_replies_of_its_next_task_for_the_last_one():
    def a(call):
        match call.payload:
            case Ask("hi"):
                return [await_answer(count=3), to("b", Ask("1"))]
            case TodoRegistered() if len(paper.seen("a")) == 2:
                return respond(Answer("never mind"))
            case Ask("again"):
                return [await_answer(), to("b", Ask("2")), to("c", Ask("3"))]
        return None

    paper = desk(a)
    paper.run()
    assert paper.conversation.todos.watchers == {}
    paper.say(Ask("again"), "a")
    paper.step()
    paper.step([d.to for d in paper.waiting].index("a"))
    paper.step()
    assert {d.to for d in paper.waiting} == {"c"}
    assert texts(paper.run())[-2:] == ["re: 2", "re: 3"]


def test_a_todo_that_is_complete_outlives_the_answer_until_it_is_closed():
    def a(call):
        match call.payload:
            case Ask("hi"):
                return [await_answer(count=1, hold=False), to("b", Ask("1"))]
            case Answer():
                return respond(Answer("done"))
        return None

    paper = desk(a).run()
    paper.ask("again")
    assert "registered for: Answer response" in paper.calls[-1][1].metadata.todo_nudge


def test_a_thread_has_a_bounded_number_of_todos_and_learns_of_the_bound():
    def a(call):
        match call.payload:
            case Ask("hi"):
                return [await_answer()] * WATCHERS
            case TodoRegistered() if len(paper.seen("a")) == WATCHERS + 1:
                return [to("b"), await_answer()]
        return None

    paper = desk(a)
    paper.run()
    refused = paper.seen("a")[-1]
    assert (refused.code, refused.retry_allowed) == ("validation", True)
    assert f"at most {WATCHERS} todos" in refused.message
    assert paper.seen("b") == []
    ((_, watchers),) = paper.conversation.todos.watchers.items()
    assert len(watchers) == WATCHERS


def test_two_watchers_of_the_same_replies_take_them_one_after_the_other():
    def a(call):
        if call.payload == Ask("hi"):
            return [await_answer(), await_answer(), *(to("b", Ask(str(n))) for n in range(4))]
        return None

    paper = desk(a)
    paper.step()
    paper.step([d.to for d in paper.waiting].index("a"))
    paper.step([d.to for d in paper.waiting].index("a"))
    released = []
    for _ in range(4):
        paper.step([d.to for d in paper.waiting].index("b"))
        (thread,) = (node for node in paper.conversation.tree.nodes.values() if node.owner == "a")
        released.append((len(thread.inbox), len(thread.held_deliveries)))
    assert released == [(0, 1), (2, 0), (2, 1), (4, 0)]


def test_the_principal_cannot_speak_to_a_service_that_works_for_handlers():
    paper = Paper(rules(listener("a")), {"a": answer})
    paper.say(TodoUntil(wait_for=Answer), "system.todo")
    paper.say(TodoUntil(wait_for=Answer))
    assert paper.replies == [make_system_error(Code.ROUTING)] * 2
    assert paper.waiting == []
