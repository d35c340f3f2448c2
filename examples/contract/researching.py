"""An agent that hands its result to the next one, and a display that ends the chain."""

from __future__ import annotations

from dataclasses import dataclass

from stub_llm import complete

from agentserver import HandlerMetadata, HandlerResponse, xmlify


@xmlify
@dataclass(frozen=True, slots=True)
class ResearchPayload:
    """Question for the agent.

    Args:
        query: in plain words.
    """

    query: str


@xmlify
@dataclass(frozen=True, slots=True)
class ResearchResult:
    """Findings of the agent.

    Args:
        answer: in plain words.
    """

    answer: str


@xmlify
@dataclass(frozen=True, slots=True)
class ConsoleOutput:
    """Text for a person to read.

    Args:
        source: the sender.
        text: the text.
    """

    source: str
    text: str


async def research_handler(payload: ResearchPayload, metadata: HandlerMetadata) -> HandlerResponse:
    """Ask the model, with the peers' payloads in its prompt, and forward its answer."""
    system_prompt = metadata.usage_instructions + "\n\nYou are a research agent."
    response = await complete(
        model="grok-4.1",
        messages=[
            {"role": "system", "content": system_prompt},
            {"role": "user", "content": payload.query},
        ],
        agent_id=metadata.own_name,
    )
    return HandlerResponse(payload=ResearchResult(answer=response.content), to="summarizer")


async def summarize(payload: ResearchResult, metadata: HandlerMetadata) -> HandlerResponse:
    """Shorten the answer and forward it to the display."""
    text = payload.answer.partition(",")[0]
    return HandlerResponse(payload=ConsoleOutput(source=metadata.from_id, text=text), to="display")


async def console_display(payload: ConsoleOutput, metadata: HandlerMetadata) -> None:
    """Print the text, without an answer: the chain ends here."""
    print(f"[{payload.source}] {payload.text}")
