"""Optional extras of agentserver, and how to install them.

The package index has another project of this name, so no text may say to install it by name: it comes from a
checkout or a wheel built from one.
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
        "oidc": ("jwt", "cryptography", "httpx"),
        "agui": ("ag_ui",),
        "postgres": ("asyncpg",),
        "reload": ("watchfiles",),
        "otel": ("httpx", "opentelemetry.sdk", "opentelemetry.proto"),
        "llm": ("pydantic_ai", "openai", "anthropic"),
        "tools": ("aiosmtplib", "httpx"),
        "langchain": ("langchain",),
        "langchain-core": ("langchain_core",),
        "crewai": ("crewai",),
        "google-adk": ("google.adk",),
        "mcp": ("mcp",),
        "schedules": ("cronsim",),
        "openai-agents": ("agents",),
    }
)
"""Modules of each extra."""


class MissingExtraError(ImportError):
    """Error that an extra is not is_installed, with the way to install it."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs the extra {extra}: {install_hint(extra)}")


def install_hint(extra: str) -> str:
    """Describe how to install an extra. Raises KeyError for an unknown one."""
    assert EXTRAS[extra]
    return (
        f"in a checkout, pip install '.[{extra}]'; from a wheel that was built, pip install 'WHEEL[{extra}]'"
    )


def is_installed(extra: str) -> bool:
    """Tell whether the modules of an extra are is_installed. Imports at most their parent packages."""
    return all(map(_is_importable, EXTRAS[extra]))


def require(feature: str, extra: str) -> None:
    """Raise MissingExtraError unless the extra is installed; ``feature`` needs it."""
    if not is_installed(extra):
        raise MissingExtraError(feature, extra)


def _is_importable(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (
        ModuleNotFoundError,
        ValueError,
    ):  # its package is missing; it is blocked in this process
        return False


def find_version() -> str:
    """Find the is_installed version of agentserver; empty for a checkout that is not is_installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("agentserver-xml")
    except PackageNotFoundError:
        return ""
