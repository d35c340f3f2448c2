"""Imports the code of each listener: payload classes, handler, settings, schema file."""

from __future__ import annotations

import dataclasses
import inspect
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from agentserver.completion import ReadyAgent
from agentserver.config.code.isolated import find_handler_class, read_isolation
from agentserver.config.code.settings import SettingsValues, make_settings
from agentserver.config.code.signature import (
    Discovery,
    Signature,
    SignatureRefusal,
    find_origin,
    is_payload,
    read_signature,
)
from agentserver.config.code.userland import Crash, NoFile, ResolveFailure, attempt
from agentserver.config.keys.approval import read_denials
from agentserver.config.keys.fields import EXCLUSIVE
from agentserver.config.keys.llm import AgentEntry
from agentserver.config.organism import BoundListener, SourceLine, refuse_call
from agentserver.contract import SYSTEM_PAYLOADS
from agentserver.core.blueprint import Listener
from agentserver.flow.lines import KEPT
from agentserver.payload.fields.field_table import PayloadType
from agentserver.payload.functions import derive, find_source_function
from agentserver.payload.json.schema import TextMemberError, find_text_member
from agentserver.remedies.configuration import ConfigCode

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import FunctionType

    from agentserver.config.code.userland import Importer, Project
    from agentserver.config.findings import Mistakes, SourceSpan
    from agentserver.config.organism import Handler, Lifespan
    from agentserver.config.validation import DeclaredListener, ParsedDocument


MAX_PROMPT = 1 << 18
"""Bytes of a prompt."""


@dataclass(slots=True)
class Binder:
    """Importer and checker of the code of listeners."""

    importer: Importer
    report: Mistakes
    discovery: Discovery = field(default_factory=Discovery)

    @property
    def _project(self) -> Project:
        return self.importer.project

    def bind(self, declared: DeclaredListener) -> BoundListener | None:
        """Bind a listener to its code; None when something of it is wrong."""
        if declared.entry.isolation is not None or "isolation" in declared.faulty:
            return self._bind_isolated(declared)
        entry = declared.entry
        is_agent = entry.model is not None and entry.handler is None
        signature = self._make_ready_made(declared) if is_agent else self._find_signature(declared)
        classes = self._import_named_classes(declared, "payload_class", declared.entry.payload_class)
        replies = self._import_named_classes(declared, "replies", declared.entry.replies)
        settings = self._make_settings(declared)
        schema = self._find_schema(declared)
        if signature is None or classes is None or replies is None:
            return None
        if isinstance(settings, SignatureRefusal) or isinstance(schema, SignatureRefusal):
            return None
        code, found = signature
        payloads = self._choose_payloads(declared, classes, found)
        if not payloads:
            return None
        self._warn(declared, found)
        agent = code if isinstance(code, ReadyAgent) else None
        answers = (agent.answer,) if agent else found.answers
        named_by_code = (
            answers if agent else (*answers, *found.stored, *self.discovery.list_classes(found.function))
        )
        discovered = tuple(dict.fromkeys((*payloads, *replies, *named_by_code)))
        listener, source = _collect_facts(declared, payloads, self.report)
        listener = replace(listener, answers=answers, progress=listener.progress or found.progress)
        handler = None if isinstance(code, ReadyAgent) else code
        return BoundListener(
            listener, handler, settings, found.returns_bytes, schema, source, discovered, agent
        )

    def _bind_isolated(self, declared: DeclaredListener) -> BoundListener | None:
        """Bind an isolated listener, whose handler only its own process imports."""
        known = "isolation" not in declared.faulty
        isolation = read_isolation(declared, self._project, self.report) if known else None
        if declared.entry.handler is None or find_handler_class(declared.entry):
            return None  # its module is not to be imported here, also where the organism is refused
        payloads = self._import_named_classes(declared, "payload_class", declared.entry.payload_class)
        replies = self._import_named_classes(declared, "replies", declared.entry.replies)
        settings = self._make_settings(declared)
        if isolation is None or not payloads or replies is None or isinstance(settings, SignatureRefusal):
            return None
        home = isolation.handler.rpartition(".")[0]
        if self.importer.has(home):
            message = f"{home} is imported by the server for another name, and its code runs there"
            self.report.add_error(
                ConfigCode.ISOLATION,
                declared.locate("handler"),
                message,
                "put the handler into a module of its own",
            )
            return None
        listener, source = _collect_facts(declared, payloads, self.report)
        forms = [
            derive(function) for kind in payloads if (function := find_source_function(kind)) is not None
        ]
        answers = tuple(dict.fromkeys(kind for form in forms for kind in form.answers))
        listener = replace(
            listener,
            answers=answers if len(forms) == len(payloads) else (),
            progress=listener.progress or any(form.stream for form in forms),
        )
        discovered = tuple(dict.fromkeys((*payloads, *replies, *answers, *KEPT)))
        return BoundListener(
            listener, refuse_call, settings, False, None, source, discovered, isolation=isolation
        )

    def _find_signature(self, declared: DeclaredListener) -> tuple[Handler, Signature] | None:
        span = declared.locate("handler", missing=declared.entry.handler is None)
        if "handler" in declared.faulty:
            return None
        if declared.entry.handler is None:
            self.report.add_error(
                ConfigCode.MISSING, span, "is missing", "or a model, for an agent that is made of one"
            )
            return None
        handler = self.resolve(declared.entry.handler, span)
        if handler is None:
            return None
        found = read_signature(handler)
        if isinstance(found, SignatureRefusal):
            place = f"{self._project.show(found.file)}:{found.line}: " if found.file else ""
            self.report.add_error(ConfigCode.HANDLER, span, place + found.message)
            return None
        return found.handler, found

    def _make_ready_made(self, declared: DeclaredListener) -> tuple[ReadyAgent, Signature] | None:
        """Make the agent, still without tools, and a placeholder signature; None after a finding."""
        entry, made_of = declared.entry, ("prompt", "answer")
        for key in made_of:
            if getattr(entry, key) is None and key not in declared.faulty:
                span = declared.locate(key, missing=True)
                self.report.add_error(
                    ConfigCode.MISSING, span, "is missing", f"a listener with a model has {key}:"
                )
        if entry.prompt is None or entry.answer is None:
            return None
        prompt = self.read_text(entry.prompt, declared.locate("prompt"), MAX_PROMPT)
        answer = self.import_payload_class(declared.locate("answer"), entry.answer)
        if prompt is None or answer is None:
            return None
        bounds = (entry.agent or AgentEntry()).model_dump()
        agent = ReadyAgent(
            entry.model or "", prompt.strip(), answer, references=entry.view is not None, **bounds
        )
        nothing = cast("FunctionType", refuse_call)
        return agent, Signature(
            (), returns_bytes=False, function=nothing, file="", line=0, handler=refuse_call
        )

    def resolve(self, path: str, span: SourceSpan) -> object | None:
        """Import the object of a dotted path; None after a finding."""
        found = self.importer.resolve(path)
        if isinstance(found, ResolveFailure):
            if not found.repeated:
                self.report.add_error(ConfigCode.IMPORT, span, found.message, found.suggestion)
            return None
        if found is None:
            self.report.add_error(ConfigCode.CLASS, span, f'"{path}" is None')
        return found

    def _import_named_classes(
        self, declared: DeclaredListener, key: str, paths: Sequence[str] | None
    ) -> tuple[type, ...] | None:
        """Import the payload classes of a key; None when one of them is wrong."""
        if key in declared.faulty:
            return ()
        found = [
            self.import_payload_class(declared.locate(key, i), path) for i, path in enumerate(paths or [])
        ]
        sound = tuple(kind for kind in found if kind is not None)
        return sound if len(sound) == len(found) else None

    def import_payload_class(self, span: SourceSpan, path: str) -> type | None:
        """Import the payload class of a dotted path; None after a finding."""
        found = self.resolve(path, span)
        if found is None:
            return None
        if not isinstance(found, type):
            self.report.add_error(ConfigCode.CLASS, span, f'"{path}" is not a class')
        elif found in SYSTEM_PAYLOADS:
            self.report.add_error(
                ConfigCode.CLASS, span, f"{found.__name__} belongs to the system", "leave it out"
            )
        elif not is_payload(found):
            place = self._project.show(find_origin(found))
            self.report.add_error(
                ConfigCode.CLASS,
                span,
                f"the class {found.__qualname__} ({place}) is not @xmlify",
                "decorate it",
            )
        else:
            return found
        return None

    def _choose_payloads(
        self, declared: DeclaredListener, declared_classes: tuple[type, ...], found: Signature
    ) -> tuple[type, ...]:
        """Choose the accepted classes: those in the YAML, or else in the annotation; empty after a finding.

        An annotation may name additional classes: the answers that the handler gets from its peers.
        """
        span = declared.locate("payload_class", missing=True)
        annotated = tuple(kind for kind in found.payloads if kind not in SYSTEM_PAYLOADS)
        if "payload_class" in declared.faulty:
            return ()
        if not declared_classes and not annotated:
            suggestion = "name the class here" + (
                "" if declared.entry.model else ", or annotate the handler's first parameter with it"
            )
            problem = (
                "is missing"
                if declared.entry.model
                else "is missing, and the handler's annotation names no class"
            )
            self.report.add_error(ConfigCode.MISSING, span, problem, suggestion)
            return ()
        if declared_classes and annotated and not set(declared_classes) & set(annotated):
            names = ", ".join(kind.__qualname__ for kind in annotated)
            place = self._format_place(found)
            message = f"{place}: the handler's annotation names {names}, which payload_class does not"
            self.report.add_error(ConfigCode.HANDLER, declared.locate("handler"), message, "make them agree")
            return ()
        untaken = [kind.__qualname__ for kind in declared_classes if annotated and kind not in annotated]
        if untaken:
            message = f"{self._format_place(found)}: the handler's annotation leaves out {', '.join(untaken)}"
            self.report.add_warning(
                ConfigCode.HANDLER, declared.locate("handler"), message, "payload_class accepts it"
            )
        return tuple(dict.fromkeys(declared_classes or annotated))

    def _format_place(self, found: Signature) -> str:
        return f"{self._project.show(found.file)}:{found.line}"

    def _warn(self, declared: DeclaredListener, found: Signature) -> None:
        if found.returns_bytes:
            message = f"{self._format_place(found)}: the handler returns bytes, which is deprecated"
            self.report.add_warning(
                ConfigCode.HANDLER, declared.locate("handler"), message, "return HandlerResponse"
            )
        if ("listeners", declared.index, "description") in declared.document.substituted:
            message = "shows a value from ${...} to peers and models, and log output hides it"
            self.report.add_warning(ConfigCode.SECRET, declared.locate("description"), message)

    def read_text(self, name: str, span: SourceSpan, limit: int) -> str | None:
        """Read a text file of the project of at most ``limit`` bytes; None after a finding."""
        path = self._project.resolve_file(name)
        if isinstance(path, NoFile):
            self.report.add_error(ConfigCode.FILE, span, *path)
            return None
        try:
            with path.open("rb") as stream:
                data = stream.read(limit + 1)
            text = data.decode("utf-8")
        except OSError as error:
            self.report.add_error(ConfigCode.FILE, span, f'"{name}" cannot be read: {error.strerror}')
            return None
        except UnicodeDecodeError:
            self.report.add_error(ConfigCode.FILE, span, f'"{name}" is not UTF-8', "save it in that encoding")
            return None
        if len(data) > limit:
            self.report.add_error(ConfigCode.FILE, span, f'"{name}" is larger than {limit} bytes')
            return None
        return text

    def _find_schema(self, declared: DeclaredListener) -> Path | SignatureRefusal | None:
        name = declared.entry.schema_file
        if name is None:
            return None
        path = self._project.resolve_file(name)
        if isinstance(path, NoFile):
            self.report.add_error(ConfigCode.FILE, declared.locate("schema"), *path)
            return SignatureRefusal(path.message)
        return path

    def _make_settings(self, declared: DeclaredListener) -> object | SignatureRefusal | None:
        """Make an instance of the settings class; None without one; a refusal after a finding."""
        entry, span = declared.entry, declared.locate("settings_class")
        if {"settings", "settings_class"} & declared.faulty:
            return SignatureRefusal("settings")
        if entry.settings_class is None:
            if entry.settings is None:
                return None
            refusal = SignatureRefusal("settings need a class that checks them")
            suggestion = "add settings_class: the dotted path of a dataclass with these fields"
            self.report.add_error(
                ConfigCode.SETTINGS, declared.locate("settings"), refusal.message, suggestion
            )
            return refusal
        kind = self.resolve(entry.settings_class, span)
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            at = ("listeners", declared.index)
            values = SettingsValues(
                declared.document, (*at, "settings"), entry.settings, (*at, "settings_class")
            )
            settings = make_settings(kind, values, self._project, self.report)
            return settings if settings is not None else SignatureRefusal("settings")
        if kind is not None:
            self.report.add_error(ConfigCode.CLASS, span, f'"{entry.settings_class}" is not a dataclass')
        return SignatureRefusal("settings class")

    def import_lifespan(self, parsed: ParsedDocument) -> Lifespan | None:
        """Import the lifespan of the organism, and check it without calling it."""
        if parsed.lifespan is None:
            return None
        is_path = isinstance(parsed.document.data["lifespan"], str)
        span = parsed.document.locate(("lifespan",) if is_path else ("lifespan", "use"))
        path = parsed.lifespan.use
        found = self.resolve(path, span)
        if found is None:
            return None
        if inspect.isasyncgenfunction(found) or inspect.iscoroutinefunction(found) or not callable(found):
            message = f'"{path}" must return an async context manager when it is called'
            self.report.add_error(
                ConfigCode.LIFESPAN, span, message, "decorate it with contextlib.asynccontextmanager"
            )
            return None
        if isinstance(attempt(lambda: inspect.signature(found).bind()), Crash):
            self.report.add_error(ConfigCode.LIFESPAN, span, f'"{path}" must be callable without arguments')
            return None
        return cast("Lifespan", found)


def _find_chat_member(declared: DeclaredListener, payloads: tuple[type, ...], report: Mistakes) -> str:
    """Find the member of the payload that takes a chat's text; empty for no chats, or after a finding."""
    setting = declared.entry.openai
    if setting is False:
        return ""
    span, member = declared.locate("openai"), None if setting is True else setting
    if len(payloads) != 1:
        message = f"it accepts {len(payloads)} payload classes, and the text of a chat fits only one"
        report.add_error(ConfigCode.OPENAI, span, message)
        return ""
    known = None if declared.entry.schema_file is not None else vars(payloads[0]).get("__payload__")
    try:
        return find_text_member(known if isinstance(known, PayloadType) else None, member)
    except TextMemberError as error:
        report.add_error(ConfigCode.OPENAI, span, str(error), error.suggestion)
        return ""


def _collect_facts(
    declared: DeclaredListener, payloads: tuple[type, ...], report: Mistakes
) -> tuple[Listener, SourceLine]:
    """Collect the facts for the core, and the place of the declaration."""
    entry, span = declared.entry, declared.locate()
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
        approval=None if entry.approval is None else entry.approval.make_rule(),
        deny=read_denials(entry.deny),
        progress=entry.progress,
        chat=_find_chat_member(declared, payloads, report),
    )
    return listener, SourceLine(span.file, span.line)
