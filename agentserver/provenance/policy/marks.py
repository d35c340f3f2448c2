"""Types that say what a payload's field is to provenance: an id of some kind, a destination, an amount, a secret.

Owns the marks that a payload's author writes. Refuses to read them: ``declared`` does.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, ClassVar, TypeAlias

from agentserver.provenance.confidentiality.readers import Readers
from agentserver.provenance.evidence.labels import Role


class Id:
    """The mark of a field that identifies a thing of some kind: ``Id["file"]``, or ``Annotated[int, Id("file")]``.

    In what a listener answers, the field is a record that identifies such a thing. In what a sink takes, it chooses
    one, and only an id of that kind is a reason to let it through. Type checkers read the text in ``Id["file"]`` as the
    name of a type; ``Annotated[str, Id("file")]`` says the same to them.

    Args:
        kind: the kind of thing, as other payloads and the policy name it.

    Raises:
        ValueError: ``kind`` is empty or no text.
    """

    __slots__ = ("kind",)
    no_constraint: ClassVar = True
    """The payload's schema says nothing about it."""

    def __init__(self, kind: str) -> None:
        given: object = kind
        if not isinstance(given, str) or not given.strip():
            raise ValueError(f"{given!r} names no kind of thing")
        self.kind = kind.strip()

    def __class_getitem__(cls, kind: str) -> Any:
        """A text that identifies a thing of this kind."""
        return Annotated[str, cls(kind)]


Destination: TypeAlias = Annotated[str, Role.DESTINATION]
"""A text that says who receives."""

Link: TypeAlias = Annotated[str, Role.DESTINATION]
"""A text that says which address is fetched or followed."""

Amount: TypeAlias = Annotated[Decimal, Role.QUANTITY]
"""A number that says how much. Of whole numbers: ``Annotated[int, Role.QUANTITY]``."""

Secret: TypeAlias = Annotated[str, Role.SELECTOR, Readers("principal")]
"""A credential. As an argument it chooses on whose behalf is acted; as a field none but the principal may read it."""
