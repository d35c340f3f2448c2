"""Extras that agentserver needs beside its dependencies, and the way to install them.

Owns the extras and the words about them. The package index knows another project by the name of this one, so nothing
here, or anywhere else, tells anybody to install it by its name: it comes from a checkout or from a wheel built of one.
"""

from __future__ import annotations

from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

EXTRAS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "console": ("prompt_toolkit",),
        "codegen": ("xsdata.codegen", "jinja2", "ruff"),
        "provenance": ("numpy",),
        "handoff": ("jsonschema",),
        "managed": ("anthropic",),
        "http": ("prometheus_client", "starlette", "uvicorn", "websockets"),
        "client": ("httpx",),
        "agui": ("ag_ui",),
        "postgres": ("asyncpg",),
        "reload": ("watchfiles",),
        "otel": ("opentelemetry.sdk", "opentelemetry.proto"),
        "llm": ("pydantic_ai", "openai", "anthropic"),
        "tools": ("aiosmtplib", "httpx"),
        "langchain": ("langchain",),
        "langchain-core": ("langchain_core",),
        "crewai": ("crewai",),
        "google-adk": ("google.adk",),
        "mcp": ("mcp",),
        "openai-agents": ("agents",),
    }
)
"""The modules that each extra brings."""


class MissingExtraError(ImportError):
    """An extra is not installed. The text says which one, and how to install it."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs the extra {extra}: {installing(extra)}")


def installing(extra: str) -> str:
    """The command that installs an extra. Raises KeyError for an unknown one."""
    assert EXTRAS[extra]
    return (
        f"in a checkout, pip install '.[{extra}]'; from a wheel that was built, pip install 'WHEEL[{extra}]'"
    )


def installed(extra: str) -> bool:
    """True when the modules of an extra are there. Imports at most the packages that its modules lie in."""
    return all(map(_there, EXTRAS[extra]))


def require(what: str, extra: str) -> None:
    """Raise MissingExtraError, which says what needs the extra, unless what it brings is there."""
    if not installed(extra):
        raise MissingExtraError(what, extra)


def _there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (
        ModuleNotFoundError,
        ValueError,
    ):  # the package around it is not there; it is shut out of this process
        return False


def find_version() -> str:
    """Find the version of agentserver that is installed; empty for a checkout that is not."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("agentserver-xml")
    except PackageNotFoundError:
        return ""
