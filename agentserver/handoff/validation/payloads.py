"""Typed payloads of handoffs, as a library for code that knows no organism."""

from __future__ import annotations

import os
import stat
import time
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from multiprocessing import get_context
from queue import Empty
from typing import TYPE_CHECKING, Any, Final

from agentserver.extras import require
from agentserver.handoff.plans import chain
from agentserver.handoff.plans.steps import read_steps
from agentserver.handoff.validation.worker import TIMEOUT, ValidationFailed, ValidationWorker
from agentserver.hygiene import objections, rules
from agentserver.hygiene.json import rules as json_rules
from agentserver.hygiene.json import tree as json_tree
from agentserver.hygiene.objections import BYTES, Objection, Schema, SchemaLanguage, quote

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

__all__ = [
    "MAX_DEPTH",
    "PAYLOAD_UNTYPED_HARD_DATE",
    "VALIDATE_TIMEOUT_SECONDS",
    "Finding",
    "PayloadSchemaError",
    "SchemaInvalid",
    "admit_payload_schema",
    "audit_handoff_chain",
    "load_payload_schema",
    "read_steps",
    "strip_llm_visible_text",
    "validate",
]


def load(value: object, root: Path) -> Schema | Objection:
    """Return the schema that a reference names below ``root``, read but not inspected; or why it is refused."""
    place = objections.parse_reference(value)
    if isinstance(place, Objection):
        return place
    try:
        data = _read(root.resolve(strict=True), root / objections.format_reference(place))
    except (OSError, ValueError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return Objection("reference", "", f"{quote(value)} cannot be read: {reason}")
    return rules.read_schema(place.kind, data, place)


def admit(value: object, root: Path) -> Schema | tuple[Objection, ...]:
    """Return the schema that a reference names, inspected by every rule; the objections when there are any."""
    schema = load(value, root)
    if isinstance(schema, Objection):
        return (schema,)
    return rules.inspect(schema) or schema


def identity(cell: str, root: Path) -> str | Objection:
    """Return the id of the inspected schema that a plan's cell names by its reference or its ``$id``."""
    named = objections.parse_json_id(cell)
    place = None if named is None else objections.Reference(*named, objections.SchemaLanguage.JSON)
    schema = admit(cell if place is None else objections.format_reference(place), root)
    if not isinstance(schema, Schema):
        return schema[0]
    own = rules.identity(schema)
    if place is not None and own != cell:
        return Objection("reference", "", f"{quote(cell)} is not the $id of its file, which is {quote(own)}")
    return own


def _read(root: Path, path: Path) -> bytes:
    """Return the file's bytes. Raises ValueError for a path that leads out of the root, or to no plain file."""
    resolved = path.resolve(strict=True)
    if not resolved.is_relative_to(root):
        raise ValueError("a symbolic link leads out of the root")
    *folders, name = resolved.relative_to(root).parts
    with ExitStack() as open_files:
        at = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        open_files.callback(os.close, at)
        for folder in folders:
            at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            open_files.callback(os.close, at)
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
        open_files.callback(os.close, file)
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise ValueError("it is no plain file")
        return _read_all(file)


def _read_all(file: int) -> bytes:
    """Read everything in the file, and never more than one byte beyond the bound."""
    parts: list[bytes] = []
    remaining = BYTES + 1
    while remaining > 0 and (part := os.read(file, remaining)):
        parts.append(part)
        remaining -= len(part)
    return b"".join(parts)


PAYLOAD_UNTYPED_HARD_DATE: Final = chain.UNTYPED_HARD
MAX_DEPTH: Final = objections.DEPTH
VALIDATE_TIMEOUT_SECONDS: Final = TIMEOUT


class PayloadSchemaError(ValueError):
    """A schema reference, or the file that it names, is refused."""


class SchemaInvalid(RuntimeError):  # noqa: N818 - the published name
    """A schema is beyond its bounds, a payload is not valid, or no result came in time."""


@dataclass(frozen=True)
class Finding:
    """The mistakes between two steps of a plan.

    Args:
        code: ``PAYLOAD_UNTYPED``, ``PAYLOAD_MISMATCH``; ``PAYLOAD_REJECTED`` where schemas are opened.
        severity: ``WARN`` or ``HARD``.
        message: for people; names the pair of steps.
    """

    code: str
    severity: str
    message: str


def load_payload_schema(value: str, repo_root: Path) -> dict[str, Any]:
    """Return the JSON Schema that a cell names, below ``repo_root``.

    Raises PayloadSchemaError for a reference that is not
    ``schemas/handoff-payloads/SLUG.vN.schema.json``, that leads out of the root, or whose file is no JSON
    object.
    """
    schema = load(value, repo_root)
    if isinstance(schema, Objection):
        raise PayloadSchemaError(str(schema))
    if schema.kind is not SchemaLanguage.JSON or not isinstance(schema.tree, dict):
        raise PayloadSchemaError("payload_schema names no JSON Schema object")
    return schema.tree


def admit_payload_schema(value: str, repo_root: Path) -> dict[str, Any]:
    """Return the same, inspected by every rule of hygiene, without anything that a model would read as words.

    Raises PayloadSchemaError with the first objections.
    """
    tree = load_payload_schema(value, repo_root)
    objections = admit(value, repo_root)
    if not isinstance(objections, Schema):
        raise PayloadSchemaError("; ".join(map(str, objections[:3])))
    bare = json_tree.strip_to_structure(tree)
    assert isinstance(bare, dict)
    return bare


def strip_llm_visible_text(schema: Any) -> Any:
    """Return a copy without description, title, $comment and examples, in every schema position.

    Members of those names and listed values stay; ``admit_payload_schema`` strips more.

    Raises SchemaInvalid if it is deeper than Python can copy, or holds itself.
    """
    try:
        return json_tree.strip_annotations(schema)
    except RecursionError:
        raise SchemaInvalid("schema is too deep, or holds itself") from None


def validate(
    payload: Any,
    schema: dict[str, Any],
    *,
    timeout: float = VALIDATE_TIMEOUT_SECONDS,
    _worker: Callable[..., None] | None = None,
) -> None:
    """Return when ``payload`` is valid by ``schema``, which may be a stranger's.

    Each call starts a process and ends it; a ``ValidationWorker`` keeps one for many calls.

    Args:
        payload: a JSON value.
        schema: a JSON Schema, at most MAX_DEPTH deep and without recursion.
        timeout: seconds of the processor, as at ``ValidationWorker.validate``; of wall clock with ``_worker``.
        _worker: for tests: a top-level function of payload, schema and queue, run in a process of its own, that
            puts ``("ok", None)`` or ``("err", text)`` into the queue.

    Raises:
        SchemaInvalid: for all that is wrong with schema, payload, worker or time.
        MissingExtraError: without the extra handoff.
    """
    _assert_bounded_schema(schema)
    if _worker is not None:
        _run_worker(_worker, payload, schema, timeout)
        return
    require("validate", "handoff")
    try:
        with ValidationWorker() as worker:
            worker.validate(payload, schema, timeout=timeout)
    except ValidationFailed as failed:
        raise SchemaInvalid(str(failed)) from None


def _assert_bounded_schema(schema: Any) -> None:
    """Raise SchemaInvalid for a schema that is too deep, too large or recursive."""
    held = Schema(SchemaLanguage.JSON, schema)
    for rule in (json_rules.check_size, json_rules.check_finite):
        for path, detail in rule(held):
            raise SchemaInvalid(f"schema {detail} ({path or '#'})")


def _run_worker(worker: Callable[..., None], payload: Any, schema: Any, timeout: float) -> None:
    """Validate by an injected worker, in a process that lives for this call."""
    context = get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=worker, args=(payload, schema, queue), daemon=True)
    process.start()
    try:
        status, detail = _result(process, queue, time.monotonic() + timeout, timeout)
    finally:
        process.kill()
        process.join()
        queue.close()
    if status != "ok":
        raise SchemaInvalid(str(detail))


def _result(process: Any, queue: Any, deadline: float, timeout: float) -> tuple[str, Any]:
    while (remaining := deadline - time.monotonic()) > 0:
        ended = not process.is_alive()
        try:
            status, detail = queue.get(timeout=min(remaining, 0.05))
        except Empty:
            if ended:
                raise SchemaInvalid(
                    f"the worker ended without a result (exit code {process.exitcode})"
                ) from None
        else:
            return status, detail
    raise SchemaInvalid(f"validation exceeded {timeout} s")


def audit_handoff_chain(
    steps: Sequence[Mapping[str, str]], *, today: date | None = None, repo_root: Path | None = None
) -> list[Finding]:
    """Compare what each step hands over with what the next one takes.

    Args:
        steps: rows as ``read_steps`` gives them.
        today: the day that decides how grave an untyped handoff is; the present day when None.
        repo_root: where schemas are; each is opened and inspected, and its ``$id`` or target namespace compared.
            Without it, the texts of the cells are.
    """
    day = today or datetime.now().astimezone().date()
    identify = _as_written if repo_root is None else partial(identity, root=repo_root)
    return [
        Finding(str(each.code), str(each.severity), each.message)
        for each in chain.audit(steps, day, identify)
    ]


def _as_written(cell: str) -> str | Objection:
    return cell
