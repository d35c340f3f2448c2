"""An organism through which a text of a stranger's passes in every way that a page shows."""

from __future__ import annotations

from dataclasses import dataclass

from agentserver import HandlerMetadata, HandlerResponse, SystemError, invocation, xmlify
from agentserver.guards import Guard, note
from agentserver.spending import Amount
from agentserver.testing import listener, organism_of

CORPUS = {
    "markup": "<img src=x onerror=alert('PWNED')><b>bold</b><iframe src=javascript:alert(1)></iframe>",
    "script": "</script><script>window.pwned = 'PWNED'</script><script src=//evil.example/x.js></script>",
    "svg": "<svg onload=alert('PWNED')><animate onbegin=alert(1) attributeName=x></svg>",
    "attribute": '" onmouseover="window.pwned=\'PWNED\'" autofocus onfocus=alert(1) x="',
    "link": "javascript:window.pwned='PWNED'//#/conversations/../../x",
    "style": "</style><style>*{display:none}</style>PWNED",
    "comment": "--> <!-- ]]> <![CDATA[ PWNED &lt;script&gt; &#60;",
    "template": "{{constructor.constructor('window.pwned=1')()}} ${window.pwned=1} #{7*7} <%= 1 %> PWNED",
    "bidi": "PWNED \u202eedoc\u202c \u2066hidden\u2069 \u200b\u200d\ufeff \u0440\u0430\u0443pal",
    "controls": "PWNED \u0085 \u2028 \u2029 \t\r\n marks: a" + "\u0301" * 60,
    "prototype": "__proto__ constructor PWNED toString",
    "long": "PWNED" + "A" * 1_000_000,
}


@xmlify
@dataclass(frozen=True)
class Say:
    text: str


@xmlify
@dataclass(frozen=True)
class Carry:
    text: str


@xmlify
@dataclass(frozen=True)
class Break:
    text: str


async def mouth(
    payload: Say | Carry | SystemError, metadata: HandlerMetadata
) -> HandlerResponse | list[HandlerResponse] | None:
    """Pays for a stranger's word, names it as a receiver, says it to a peer, to one that asks and to one that breaks."""
    storage = invocation().storage
    if isinstance(payload, SystemError):
        kept = storage.get(Say) or Say("")
        storage.set(Say(""))
        return HandlerResponse(Carry("x"), to=kept.text) if kept.text else None
    if not isinstance(payload, Say):
        return None
    storage.set(Say(payload.text[:200]))
    words = payload.text
    purse = invocation().purse
    if purse is not None:
        reserved = await purse.reserve(Amount(tokens=100, money=50), words[:100])
        await purse.settle(reserved, Amount(tokens=42, money=7))
    return [
        HandlerResponse(Carry(words), to="porter"),
        HandlerResponse(Carry(words), to="till"),
        HandlerResponse(Break(words), to="crash"),
    ]


async def porter(payload: Carry, metadata: HandlerMetadata) -> HandlerResponse:
    return HandlerResponse.respond(payload)


async def till(payload: Carry, metadata: HandlerMetadata) -> HandlerResponse:
    return HandlerResponse.respond(payload)


async def crash(payload: Break, metadata: HandlerMetadata) -> HandlerResponse:
    raise RuntimeError(payload.text)


class RecordingGuard(Guard):
    """Records messages, as a guard of a program may."""

    def judge(self, message, memory):
        return note(f"it says {message.payload}"[:500])


class HoldingGuard:
    """Lets messages wait."""

    def show(self, approval):
        pass


def organism():
    return organism_of(
        listener(
            "mouth", mouth, Say, peers=["porter", "till", "crash"], agent=True, description=CORPUS["markup"]
        ),
        listener("porter", porter, Carry, description=CORPUS["bidi"]),
        listener("till", till, Carry, approval=True),
        listener("crash", crash, Break),
        name="hostile",
    )
