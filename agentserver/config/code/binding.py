"""The code behind each listener.

Owns what a listener's entry refers to: payload classes, handler, settings, schema file. Refuses to know the
other listeners.
"""

from __future__ import annotations

import dataclasses
import inspect
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from agentserver.completion import ReadyAgent
from agentserver.config.code.isolated import beside_handler, isolated
from agentserver.config.code.settings import Given, make_settings
from agentserver.config.code.signature import (
    Discovery,
    Signature,
    SignatureRefusal,
    is_payload,
    origin,
    read_signature,
)
from agentserver.config.code.userland import Crash, NoFile, Unresolved, attempt
from agentserver.config.keys.llm import AgentEntry
from agentserver.config.keys.words import EXCLUSIVE
from agentserver.config.organism import BoundListener, SourceLine, elsewhere
from agentserver.contract import SYSTEM_PAYLOADS
from agentserver.core.blueprint import Listener
from agentserver.remedies.configuration import ConfigCode

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import FunctionType

    from agentserver.config.code.userland import Importer, Project
    from agentserver.config.findings import Mistakes, Where
    from agentserver.config.organism import Handler, Lifespan
    from agentserver.config.validation import DeclaredListener, Parsed


MAX_PROMPT = 1 << 18
"""Bytes of a prompt."""


@dataclass(slots=True)
class Binder:
    """Finds the code of listeners and checks it."""

    importer: Importer
    report: Mistakes
    discovery: Discovery = field(default_factory=Discovery)

    @property
    def _project(self) -> Project:
        return self.importer.project

    def bind(self, declared: DeclaredListener) -> BoundListener | None:
        """The listener with its code, or None when something of it is wrong."""
        if declared.entry.isolation is not None or "isolation" in declared.faulty:
            return self._bind_isolated(declared)
        entry = declared.entry
        made = entry.model is not None and entry.handler is None
        signature = self._ready_made(declared) if made else self._signature(declared)
        named = self._named_classes(declared, "payload_class", declared.entry.payload_class)
        replies = self._named_classes(declared, "replies", declared.entry.replies)
        settings = self._settings(declared)
        schema = self._schema(declared)
        if signature is None or named is None or replies is None:
            return None
        if isinstance(settings, SignatureRefusal) or isinstance(schema, SignatureRefusal):
            return None
        code, found = signature
        payloads = self._payloads(declared, named, found)
        if not payloads:
            return None
        self._warn(declared, found)
        agent = code if isinstance(code, ReadyAgent) else None
        named_by_code = (agent.answer,) if agent else self.discovery.classes(found.function)
        discovered = tuple(dict.fromkeys((*payloads, *replies, *named_by_code)))
        listener, source = _facts(declared, payloads)
        listener = listener if agent is None else replace(listener, answers=(agent.answer,))
        handler = None if isinstance(code, ReadyAgent) else code
        return BoundListener(
            listener, handler, settings, found.returns_bytes, schema, source, discovered, agent
        )

    def _bind_isolated(self, declared: DeclaredListener) -> BoundListener | None:
        """A listener whose handler is imported by a process of its own, and never here."""
        known = "isolation" not in declared.faulty
        isolation = isolated(declared, self._project, self.report) if known else None
        if declared.entry.handler is None or beside_handler(declared.entry):
            return None  # its module is not to be imported here, also where the organism is refused
        payloads = self._named_classes(declared, "payload_class", declared.entry.payload_class)
        replies = self._named_classes(declared, "replies", declared.entry.replies)
        settings = self._settings(declared)
        if isolation is None or not payloads or replies is None or isinstance(settings, SignatureRefusal):
            return None
        home = isolation.handler.rpartition(".")[0]
        if self.importer.has(home):
            message = f"{home} is imported by the server for another name, and its code runs there"
            self.report.error(
                ConfigCode.ISOLATION,
                declared.where("handler"),
                message,
                "put the handler into a module of its own",
            )
            return None
        listener, source = _facts(declared, payloads)
        discovered = tuple(dict.fromkeys((*payloads, *replies)))
        return BoundListener(
            listener, elsewhere, settings, False, None, source, discovered, isolation=isolation
        )

    def _signature(self, declared: DeclaredListener) -> tuple[Handler, Signature] | None:
        where = declared.where("handler", missing=declared.entry.handler is None)
        if "handler" in declared.faulty:
            return None
        if declared.entry.handler is None:
            self.report.error(
                ConfigCode.MISSING, where, "is missing", "or a model, for an agent that is made of one"
            )
            return None
        handler = self.resolve(declared.entry.handler, where)
        if handler is None:
            return None
        found = read_signature(handler)
        if isinstance(found, SignatureRefusal):
            place = f"{self._project.show(found.file)}:{found.line}: " if found.file else ""
            self.report.error(ConfigCode.HANDLER, where, place + found.message)
            return None
        return cast("Handler", handler), found

    def _ready_made(self, declared: DeclaredListener) -> tuple[ReadyAgent, Signature] | None:
        """The agent, still without tools, and the signature of the handler that it stands for; None after a finding."""
        entry, made_of = declared.entry, ("prompt", "answer")
        for key in made_of:
            if getattr(entry, key) is None and key not in declared.faulty:
                where = declared.where(key, missing=True)
                self.report.error(
                    ConfigCode.MISSING, where, "is missing", f"a listener with a model has {key}:"
                )
        if entry.prompt is None or entry.answer is None:
            return None
        prompt = self.text(entry.prompt, declared.where("prompt"), MAX_PROMPT)
        answer = self.payload_class(declared.where("answer"), entry.answer)
        if prompt is None or answer is None:
            return None
        bounds = (entry.agent or AgentEntry()).model_dump()
        agent = ReadyAgent(
            entry.model or "", prompt.strip(), answer, references=entry.view is not None, **bounds
        )
        return agent, Signature(
            (), returns_bytes=False, function=cast("FunctionType", elsewhere), file="", line=0
        )

    def resolve(self, path: str, where: Where) -> object | None:
        """The object that a dotted path names, or None after a finding."""
        found = self.importer.resolve(path)
        if isinstance(found, Unresolved):
            if not found.repeated:
                self.report.error(ConfigCode.IMPORT, where, found.message, found.suggestion)
            return None
        if found is None:
            self.report.error(ConfigCode.CLASS, where, f'"{path}" is None')
        return found

    def _named_classes(
        self, declared: DeclaredListener, key: str, paths: Sequence[str] | None
    ) -> tuple[type, ...] | None:
        """The payload classes that a key names; None when one of them is wrong."""
        if key in declared.faulty:
            return ()
        found = [self.payload_class(declared.where(key, i), path) for i, path in enumerate(paths or [])]
        sound = tuple(kind for kind in found if kind is not None)
        return sound if len(sound) == len(found) else None

    def payload_class(self, where: Where, path: str) -> type | None:
        """The payload class that a dotted path names, or None after a finding."""
        found = self.resolve(path, where)
        if found is None:
            return None
        if not isinstance(found, type):
            self.report.error(ConfigCode.CLASS, where, f'"{path}" is not a class')
        elif found in SYSTEM_PAYLOADS:
            self.report.error(
                ConfigCode.CLASS, where, f"{found.__name__} belongs to the system", "leave it out"
            )
        elif not is_payload(found):
            place = self._project.show(origin(found))
            self.report.error(
                ConfigCode.CLASS,
                where,
                f"the class {found.__qualname__} ({place}) is not @xmlify",
                "decorate it",
            )
        else:
            return found
        return None

    def _payloads(
        self, declared: DeclaredListener, named: tuple[type, ...], found: Signature
    ) -> tuple[type, ...]:
        """The classes that the listener accepts: those of the YAML, or else of the annotation; empty after a finding.

        Beside what the YAML names, an annotation may name more: the answers that the handler gets from its peers.
        """
        where = declared.where("payload_class", missing=True)
        annotated = tuple(kind for kind in found.payloads if kind not in SYSTEM_PAYLOADS)
        if "payload_class" in declared.faulty:
            return ()
        if not named and not annotated:
            suggestion = "name the class here" + (
                "" if declared.entry.model else ", or annotate the handler's first parameter with it"
            )
            told = (
                "is missing"
                if declared.entry.model
                else "is missing, and the handler's annotation names no class"
            )
            self.report.error(ConfigCode.MISSING, where, told, suggestion)
            return ()
        if named and annotated and not set(named) & set(annotated):
            told = ", ".join(kind.__qualname__ for kind in annotated)
            message = (
                f"{self._place(found)}: the handler's annotation names {told}, which payload_class does not"
            )
            self.report.error(ConfigCode.HANDLER, declared.where("handler"), message, "make them agree")
            return ()
        untaken = [kind.__qualname__ for kind in named if annotated and kind not in annotated]
        if untaken:
            message = f"{self._place(found)}: the handler's annotation leaves out {', '.join(untaken)}"
            self.report.warning(
                ConfigCode.HANDLER, declared.where("handler"), message, "payload_class accepts it"
            )
        return tuple(dict.fromkeys(named or annotated))

    def _place(self, found: Signature) -> str:
        return f"{self._project.show(found.file)}:{found.line}"

    def _warn(self, declared: DeclaredListener, found: Signature) -> None:
        if found.returns_bytes:
            message = f"{self._place(found)}: the handler returns bytes, which is deprecated"
            self.report.warning(
                ConfigCode.HANDLER, declared.where("handler"), message, "return HandlerResponse"
            )
        if ("listeners", declared.index, "description") in declared.document.substituted:
            message = "shows a value from ${...} to peers and models, and log output hides it"
            self.report.warning(ConfigCode.SECRET, declared.where("description"), message)

    def text(self, name: str, where: Where, limit: int) -> str | None:
        """The text of a file of the project of at most ``limit`` bytes, or None after a finding."""
        path = self._project.file(name)
        if isinstance(path, NoFile):
            self.report.error(ConfigCode.FILE, where, *path)
            return None
        try:
            with path.open("rb") as stream:
                data = stream.read(limit + 1)
            text = data.decode("utf-8")
        except OSError as error:
            self.report.error(ConfigCode.FILE, where, f'"{name}" cannot be read: {error.strerror}')
            return None
        except UnicodeDecodeError:
            self.report.error(ConfigCode.FILE, where, f'"{name}" is not UTF-8', "save it in that encoding")
            return None
        if len(data) > limit:
            self.report.error(ConfigCode.FILE, where, f'"{name}" is larger than {limit} bytes')
            return None
        return text

    def _schema(self, declared: DeclaredListener) -> Path | SignatureRefusal | None:
        name = declared.entry.schema_file
        if name is None:
            return None
        path = self._project.file(name)
        if isinstance(path, NoFile):
            self.report.error(ConfigCode.FILE, declared.where("schema"), *path)
            return SignatureRefusal(path.message)
        return path

    def _settings(self, declared: DeclaredListener) -> object | SignatureRefusal | None:
        """An instance of the settings class; None without one; a refusal after a finding."""
        entry, where = declared.entry, declared.where("settings_class")
        if {"settings", "settings_class"} & declared.faulty:
            return SignatureRefusal("settings")
        if entry.settings_class is None:
            if entry.settings is None:
                return None
            refusal = SignatureRefusal("settings need a class that checks them")
            suggestion = "add settings_class: the dotted path of a dataclass with these fields"
            self.report.error(ConfigCode.SETTINGS, declared.where("settings"), refusal.message, suggestion)
            return refusal
        kind = self.resolve(entry.settings_class, where)
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            at = ("listeners", declared.index)
            given = Given(declared.document, (*at, "settings"), entry.settings, (*at, "settings_class"))
            made = make_settings(kind, given, self._project, self.report)
            return made if made is not None else SignatureRefusal("settings")
        if kind is not None:
            self.report.error(ConfigCode.CLASS, where, f'"{entry.settings_class}" is not a dataclass')
        return SignatureRefusal("settings class")

    def lifespan(self, parsed: Parsed) -> Lifespan | None:
        """The organism's lifespan, checked as far as that goes without calling it."""
        if parsed.lifespan is None:
            return None
        alone = isinstance(parsed.document.data["lifespan"], str)
        where = parsed.document.where(("lifespan",) if alone else ("lifespan", "use"))
        path = parsed.lifespan.use
        found = self.resolve(path, where)
        if found is None:
            return None
        if inspect.isasyncgenfunction(found) or inspect.iscoroutinefunction(found) or not callable(found):
            message = f'"{path}" must return an async context manager when it is called'
            self.report.error(
                ConfigCode.LIFESPAN, where, message, "decorate it with contextlib.asynccontextmanager"
            )
            return None
        if isinstance(attempt(lambda: inspect.signature(found).bind()), Crash):
            self.report.error(ConfigCode.LIFESPAN, where, f'"{path}" must be callable without arguments')
            return None
        return cast("Lifespan", found)


def _facts(declared: DeclaredListener, payloads: tuple[type, ...]) -> tuple[Listener, SourceLine]:
    """The facts that the core works with, and where they are declared."""
    entry, where = declared.entry, declared.where()
    listener = Listener(
        name=entry.name,
        payloads=payloads,
        description=entry.description,
        agent=entry.acts,
        peers=frozenset(entry.peers),
        broadcast=entry.broadcast,
        concurrency=entry.concurrency or 1,
        exclusive=entry.concurrency == EXCLUSIVE,
        deadline=entry.deadline,
        retries=entry.retries,
        approval=entry.approval == "required",
        progress=entry.progress,
    )
    return listener, SourceLine(where.file, where.line)
