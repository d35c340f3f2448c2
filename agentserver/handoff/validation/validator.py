"""The program inside a validation worker.

It does not import agentserver and
is run as a file, so that its interpreter starts with as little as possible; it reads requests from its
standard input, answers on its standard output and ends with its input. The process that started it keeps the time and
kills it.

A message is its length in four bytes, most significant first, and JSON.
"""

from __future__ import annotations

import json
import re
import resource
from collections import OrderedDict
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Judge = Callable[[Any], str]

MEMORY = 1 << 30
KEPT = 64
SAID = 500


def main() -> int:
    """Serve until the input ends."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with open(0, "rb", closefd=False) as requests, open(1, "wb", closefd=False) as answers:
        serve(requests, answers)
    return 0


def serve(requests: BinaryIO, taken: BinaryIO) -> None:
    """Answer requests until the input ends."""
    judges: OrderedDict[str, Judge] = OrderedDict()
    _warm()
    _send(taken, {"ready": True})
    while (head := requests.read(4)) and len(head) == 4:  # noqa: PLR2004 - bytes of a length
        message = json.loads(requests.read(int.from_bytes(head)))
        _send(taken, {"error": _answer(judges, message)})


def _warm() -> None:
    """Import what most requests need before the first: the time that one may take is for the validation."""
    with suppress(ImportError):  # the extra is missing: whoever needs it is told
        import jsonschema
        import referencing  # noqa: F401
        from lxml import etree  # noqa: F401

        jsonschema.validators.validator_for({}).check_schema({})


def _send(to: BinaryIO, message: dict[str, Any]) -> None:
    data = json.dumps(message).encode()
    to.write(len(data).to_bytes(4) + data)
    to.flush()


def _answer(judges: OrderedDict[str, Judge], message: dict[str, Any]) -> str:
    """Return the reason why the payload is not valid; empty when it is."""
    key = f"{message['kind']}:{message['schema']}"
    try:
        judge = judges.get(key) or _PREPARE[message["kind"]](message["schema"])
        judges[key] = judge
        judges.move_to_end(key)
        if len(judges) > KEPT:
            judges.popitem(last=False)
        return judge(message["payload"])[:SAID]
    except Exception as error:  # noqa: BLE001 - an exception that a foreign schema sets off is an answer, not an end
        first_line = str(error).partition("\n")[0]
        return f"{type(error).__name__}: {first_line}"[:SAID]


def _make_json_judge(schema: str) -> Judge:
    from agentserver.extras import require

    require("a JSON schema", "handoff")
    import referencing
    from jsonschema import validators

    parsed = json.loads(schema)
    kind = validators.validator_for(parsed, default=validators.validator_for({}))
    kind.check_schema(parsed)
    extended: Any = validators.extend(kind, {"pattern": _pattern})  # type: ignore[no-untyped-call] # it has no types
    judge = extended(parsed, registry=referencing.Registry())  # an empty one: nothing is fetched

    def judge_payload(payload: Any) -> str:
        found = next(judge.iter_errors(payload), None)
        if found is None:
            return ""
        place = "/".join(str(step)[:64] for step in found.absolute_path)
        return f"ValidationError: /{place}: breaks {found.validator!r} of the schema"

    return judge_payload


def _pattern(_: Any, pattern: str, instance: Any, __: Any) -> Iterator[Any]:
    """``pattern`` as ECMA 262 means it: ``$`` is the end of the text and admits no newline before it."""
    from jsonschema import ValidationError

    if isinstance(instance, str) and not re.search(anchor(pattern), instance):
        yield ValidationError("does not match")


_TOKENS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*+(?:\]|\Z)|\$|[^\\\[$]+|.", re.DOTALL)


def anchor(pattern: str) -> str:
    """Return the pattern with every ``$`` that is an anchor turned into the end of the text."""
    return "".join("\\Z" if atom == "$" else atom for atom in _TOKENS.findall(pattern))


def _make_xsd_judge(schema: str) -> Judge:
    from lxml import etree

    parser = etree.XMLParser(encoding="utf-8", resolve_entities=False, no_network=True, load_dtd=False)
    compiled = etree.XMLSchema(etree.fromstring(schema.encode(), parser))

    def judge_payload(payload: Any) -> str:
        if compiled.validate(etree.fromstring(str(payload).encode(), parser)):
            return ""
        log: Any = compiled.error_log
        last = log.last_error
        return f"ValidationError: {last.path}: breaks {last.type_name}"

    return judge_payload


_PREPARE: dict[str, Callable[[str], Judge]] = {"json-schema": _make_json_judge, "xsd": _make_xsd_judge}

if __name__ == "__main__":
    raise SystemExit(main())
