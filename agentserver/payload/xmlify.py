"""The decorator that makes a dataclass a payload."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeVar, overload

from agentserver.payload.codec import GeneratedCodec
from agentserver.payload.fields.describe import table
from agentserver.payload.fields.field_table import PayloadError, PayloadType

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import FrameType

__all__ = ["PayloadError", "PayloadType", "describe", "xmlify"]

C = TypeVar("C", bound=type)


@overload
def xmlify(cls: C, /) -> C: ...
@overload
def xmlify(
    *,
    name: str | None = None,
    namespace: str | None = None,
    version: int = 1,
    example: Mapping[str, Any] | None = None,
) -> Callable[[C], C]: ...
def xmlify(
    cls: C | None = None,
    /,
    *,
    name: str | None = None,
    namespace: str | None = None,
    version: int = 1,
    example: Mapping[str, Any] | None = None,
) -> C | Callable[[C], C]:
    """Make a dataclass a payload. Goes above ``@dataclass``.

    Args:
        cls: the dataclass, when used without parentheses.
        name: the root element; the class name when None.
        namespace: a URI; ``urn:agentserver:payload:<root>`` when None. The version is added to it.
        version: raised when the schema changes, from 1.
        example: values of fields for the example, where the constraints allow no automatic one.

    Raises:
        PayloadError: what cannot be represented, with class, field and what would work.
    """
    caller = sys._getframe(1)  # noqa: SLF001 - the only way to the names local to a function
    if namespace is not None and namespace.startswith("urn:agentserver:"):
        raise PayloadError(
            f"the namespace {namespace!r} is the server's own; use a URI such as urn:shop:order"
        )

    def attach(target: C) -> C:
        scope = _locals(target, caller)
        return _attach(
            target,
            table(target, name=name, namespace=namespace, version=version, example=example, scope=scope),
        )

    return attach if cls is None else attach(cls)


def make_payload(cls: C, scope: Mapping[str, Any]) -> C:
    """Make a dataclass a payload as ``xmlify`` does; ``scope`` holds names that its annotations may use.

    Raises PayloadError.
    """
    return _attach(cls, table(cls, scope=scope))


def _attach(cls: C, payload: PayloadType) -> C:
    cls.__payload__ = payload  # type: ignore[attr-defined]
    # Schema, example and functions: slow to make again, and the same for each server.
    cls.__codec__ = GeneratedCodec(payload)  # type: ignore[attr-defined]
    cls.__xml_name__ = payload.qname  # type: ignore[attr-defined]
    return cls


def describe(
    cls: type, *, name: str | None = None, namespace: str | None = None, version: int = 1
) -> PayloadType:
    """Return the field table of a dataclass, proved as ``@xmlify`` does, without touching the class.

    Raises PayloadError.
    """
    caller = sys._getframe(1)  # noqa: SLF001 - as above
    payload = table(cls, name=name, namespace=namespace, version=version, scope=_locals(cls, caller))
    GeneratedCodec(payload)
    return payload


def _locals(cls: Any, frame: FrameType | None) -> dict[str, Any]:
    """Map the names of the functions that enclose the class, the innermost winning, and of the code that declares it.

    That code need not be a module's: a documentation test or a prompt has names of its own.
    """
    scopes: list[Mapping[str, Any]] = []
    declaring = {} if frame is None else frame.f_globals
    qualname = getattr(cls, "__qualname__", "")
    while frame is not None:
        if qualname.startswith(f"{frame.f_code.co_qualname}."):
            scopes.append(frame.f_locals)
        frame = frame.f_back
    return {name: value for scope in (declaring, *reversed(scopes)) for name, value in scope.items()}
