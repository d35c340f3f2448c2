"""Reads ``llm:``: backends, keys, prices and scripts. Imports no provider."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import ValidationError

from agentserver.completion import Backend, LanguageModels, ModelChoice, Price, PromptRecording
from agentserver.config.findings import did_you_mean, format_path, index_by_name
from agentserver.config.keys.fields import DOTTED_PATTERN
from agentserver.config.keys.llm import BackendEntry, LlmEntry, ModelEntry, Script, ScriptCall, Turn
from agentserver.config.validation import describe, list_keys
from agentserver.remedies.configuration import ConfigCode
from agentserver.spending import UNBOUNDED, Budget, Budgets, usd

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from agentserver.config.code.binding import Binder
    from agentserver.config.findings import SourceSpan
    from agentserver.config.keys.llm import BudgetEntry
    from agentserver.config.yaml.document import Document
    from agentserver.config.yaml.secrets import Secrets


MILLION = 1_000_000

MAX_FILE = 1 << 20
"""Bytes of a script."""

_SAID = {"turns", *list_keys(Turn), *list_keys(ScriptCall)}
"""The keys of a script: pydantic puts names of its own between them."""

FILES = (".yaml", ".yml", ".json")
"""The ends of the name of a script that is a file."""


def read_models(
    document: Document, secrets: Secrets, binder: Binder, listeners: Collection[str]
) -> LanguageModels:
    """Read backends, models and budgets from a valid entry, with a finding for each mistake."""
    reader = _Reader(document, secrets, binder)
    entry = LlmEntry.model_validate(document.data["llm"])
    prices = {name: Price(price.input, price.output) for name, price in entry.prices.items()}
    report = binder.report
    backends = index_by_name(entry.backends, lambda at: reader.locate("backends", at, "name"), report)
    models = index_by_name(entry.models, lambda at: reader.locate("models", at, "name"), report)
    for at, model in models.values():
        reader.check_backends(at, model, backends)
    names = {backend.model for backend in entry.backends}
    for name in prices.keys() - names:
        reader.refuse(
            ConfigCode.NAME, ("prices", name), f'no backend has the model "{name}"', did_you_mean(name, names)
        )
    budgets = reader.read_budgets(entry, listeners)
    in_money = any(
        one.money is not None for one in (budgets.request, budgets.conversation, *budgets.agents.values())
    )
    priced = {**prices, **(reader.map_ceilings(backends, prices) if in_money else {})}
    return LanguageModels(
        MappingProxyType(
            {name: reader.make_backend(at, one, (prices, priced)) for name, (at, one) in backends.items()}
        ),
        MappingProxyType(
            {
                name: ModelChoice(
                    name, tuple(one.backends), one.strategy, one.retries, one.max_tokens, one.settings
                )
                for name, (_, one) in models.items()
            }
        ),
        budgets,
        PromptRecording(
            entry.prompts.record,
            entry.prompts.sample,
            entry.prompts.retention,
            frozenset(entry.prompts.roles),
        ),
    )


@dataclass(frozen=True, slots=True)
class _Reader:
    document: Document
    secrets: Secrets
    binder: Binder

    def locate(self, *keys: str | int, missing: bool = False) -> SourceSpan:
        return self.document.locate(("llm", *keys), missing=missing)

    def refuse(
        self, code: ConfigCode, keys: tuple[str | int, ...], message: str, suggestion: str = ""
    ) -> None:
        self.binder.report.add_error(code, self.locate(*keys), message, suggestion)

    def check_backends(self, at: int, model: ModelEntry, known: Mapping[str, Any]) -> None:
        for place, name in enumerate(model.backends):
            keys = ("models", at, "backends", place)
            if name not in known:
                self.refuse(ConfigCode.NAME, keys, f'unknown backend "{name}"', did_you_mean(name, known))
            elif name in model.backends[:place]:
                self.refuse(ConfigCode.REPEATED, keys, f'the backend "{name}" is named twice')

    def read_budgets(self, entry: LlmEntry, listeners: Collection[str]) -> Budgets:
        """Read the spending limits; a call reserves the full ``max_tokens`` of its answer."""
        minimum = min(model.max_tokens for model in entry.models)
        declared = entry.budget
        by_keys: dict[tuple[str, ...], BudgetEntry | None] = {
            ("request",): declared.request,
            ("conversation",): declared.conversation,
        }
        by_keys.update({("agents", name): budget for name, budget in declared.agents.items()})
        for keys, budget in by_keys.items():
            if budget is not None and budget.tokens is not None and budget.tokens <= minimum:
                message = (
                    f"no call will ever go out: each reserves the {minimum} tokens that its answer may have"
                )
                self.refuse(
                    ConfigCode.LLM,
                    ("budget", *keys, "tokens"),
                    message,
                    "raise it, or lower max_tokens of the models",
                )
        for name in declared.agents.keys() - set(listeners):
            message, hint = f'unknown listener "{name}"', did_you_mean(name, listeners)
            self.refuse(ConfigCode.NAME, ("budget", "agents", name), message, hint)
        agents = {name: _make_budget(budget) for name, budget in declared.agents.items()}
        return Budgets(_make_budget(declared.request), _make_budget(declared.conversation), agents)

    def map_ceilings(
        self, backends: Mapping[str, tuple[int, BackendEntry]], prices: Mapping[str, Price]
    ) -> Mapping[str, Price]:
        """Return the highest price of each model that has a budget in money and no declared price."""
        found = {}
        for at, entry in backends.values():
            if entry.provider == "scripted" or entry.model in prices:
                continue
            price = _find_table_price(entry)
            if price is None:
                message = f'no price is known of "{entry.model}", and there is a budget in money'
                hint = f"name it: prices: {{{entry.model}: {{input: 1.0, output: 1.0}}}}"
                self.refuse(ConfigCode.LLM, ("backends", at, "model"), message, hint)
            else:
                found[entry.model] = price
        return found

    def make_backend(
        self, at: int, entry: BackendEntry, known: tuple[Mapping[str, Price], Mapping[str, Price]]
    ) -> Backend:
        self._check_key(at, entry)
        script = self._read_script(at, entry)
        prices, ceilings = known
        return Backend(
            price=prices.get(entry.model),
            ceiling=ceilings.get(entry.model),
            key=entry.key or "",
            script=script,
            **entry.model_dump(exclude={"key", "script"}),
        )

    def _check_key(self, at: int, entry: BackendEntry) -> None:
        if entry.provider == "scripted":
            for key in ("key", "base_url"):
                if getattr(entry, key) is not None:
                    self.refuse(
                        ConfigCode.LLM,
                        ("backends", at, key),
                        "a scripted backend asks nobody",
                        "leave it out",
                    )
            return
        if entry.script is not None:
            self.refuse(ConfigCode.LLM, ("backends", at, "script"), "belongs to provider: scripted")
        if "model" not in entry.model_fields_set:
            span = self.locate("backends", at, "model", missing=True)
            self.binder.report.add_error(ConfigCode.MISSING, span, "is missing")
        if entry.key is None:
            if entry.base_url is None:
                span = self.locate("backends", at, "key", missing=True)
                name = f"${{{entry.provider.upper()}_API_KEY}}"
                self.binder.report.add_error(ConfigCode.MISSING, span, "is missing", f'write key: "{name}"')
        else:
            report, span = self.binder.report, self.locate("backends", at, "key")
            report.check_secret(span, "key", entry.key, self.secrets)

    def _read_script(self, at: int, entry: BackendEntry) -> Any:
        """Read the turns of a scripted backend, or import its function."""
        if entry.provider != "scripted":
            return None
        span = self.locate("backends", at, "script", missing=entry.script is None)
        if entry.script is None:
            self.binder.report.add_error(
                ConfigCode.MISSING, span, "is missing", "a YAML file with turns, or a function"
            )
            return None
        if entry.script.endswith(FILES):
            return self._read_turns(span, entry.script)
        if not re.search(DOTTED_PATTERN, entry.script):
            self.binder.report.add_error(
                ConfigCode.VALUE, span, "is neither a .yaml file nor a dotted path of a function"
            )
            return None
        found = self.binder.resolve(entry.script, span)
        if found is not None and not callable(found):
            self.binder.report.add_error(ConfigCode.LLM, span, f'"{entry.script}" is not a function')
        return found

    def _read_turns(self, span: SourceSpan, name: str) -> Any:
        text = self.binder.read_text(name, span, MAX_FILE)
        if text is None:
            return None
        try:
            script = Script.model_validate({"turns": yaml.safe_load(text)})
        except yaml.YAMLError as error:
            self.binder.report.add_error(ConfigCode.YAML, span, f'"{name}" is not YAML: {error}')
            return None
        except ValidationError as error:
            fault = error.errors(include_url=False, include_input=False)[0]
            at = format_path(tuple(part for part in fault["loc"] if isinstance(part, int) or part in _SAID))
            self.binder.report.add_error(ConfigCode.LLM, span, f'"{name}": {at}: {describe(fault)[0]}')
            return None
        return script.model_dump(exclude_defaults=True)["turns"]


def _make_budget(entry: BudgetEntry | None) -> Budget:
    if entry is None:
        return UNBOUNDED
    return Budget(entry.tokens, None if entry.money is None else usd(entry.money))


def _find_table_price(entry: BackendEntry) -> Price | None:
    """Look up the highest price in the table of the extra; None for an unknown model.

    A model behind a custom address may share its name with one of the provider, and its price is unknown.
    """
    if entry.base_url is not None or find_spec("genai_prices") is None:
        return None
    from genai_prices import Usage, calc_price

    try:
        found = calc_price(
            Usage(input_tokens=MILLION, output_tokens=MILLION), entry.model, provider_id=entry.provider
        )
    except LookupError:
        return None
    return Price(float(found.input_price), float(found.output_price))
