"""``provenance:`` and ``trust:``."""

from __future__ import annotations

from dataclasses import fields

import pytest

from agentserver.guards.lineage.exposure import Recall
from agentserver.provenance.evidence.labels import Mode, Role, Standing
from agentserver.provenance.evidence.layouts import TextLayout
from agentserver.provenance.policy.declarations import FieldRule, LayoutRule, PlanSource, Policy, SinkRule
from agentserver.provenance.policy.model import PolicyEntry
from tests.config.conftest import CODE

TWO = """
name: demo
listeners:
  - name: greeter
    handler: listeners.greet.greet
    description: Greets.
  - name: plain
    handler: listeners.greet.plain
    payload_class: listeners.greet.Reply
    description: Listens.
"""


def trust_text(one="", two=""):
    text = TWO.replace(
        "    description: Greets.",
        f"    description: Greets.\n    {one}" if one else "    description: Greets.",
    )
    return text + (f"    {two}\n" if two else "")


def test_the_keys_are_the_fields_of_a_policy():
    assert set(PolicyEntry.model_fields) == {field.name for field in fields(Policy) if field.init}


def test_without_the_key_nobody_asks(project):
    assert project.load(TWO).provenance is None


@pytest.mark.parametrize("value", ["", "{}"])
def test_the_bare_key_means_its_defaults(project, value):
    policy = project.load(TWO + f"provenance: {value}\n").provenance.policy
    assert (policy.mode, policy.sources, policy.sinks) == (Mode.AUDIT, (), ())


def test_the_keys_are_those_of_a_policy(project):
    inline = """
    mode: enforce
    strict: yes
    budget: 12
    allow: ["@corp.example"]
    sources: [greeter]
    fields: {greeter: {text.mail: directory, text: record}}
    layouts: {greeter: {text: json}}
    sinks:
      plain:
        arguments: {text: payload}
    """
    policy = project.load(TWO + "provenance:" + inline.replace("\n    ", "\n  ")).provenance.policy
    assert (policy.mode, policy.strict, policy.budget) == (Mode.ENFORCE, True, 12)
    assert policy.fields == (
        FieldRule("greeter", "text.mail", Standing.DIRECTORY),
        FieldRule("greeter", "text", Standing.RECORD),
    )
    assert policy.layouts == (LayoutRule("greeter", "text", TextLayout.JSON),)
    assert policy.sinks[0].arguments[0].role is Role.PAYLOAD


def test_the_mode_may_come_from_the_environment(project):
    project.environ["MODE"] = "confirm"
    assert project.load(TWO + "provenance: {mode: '${MODE}'}\n").provenance.policy.mode is Mode.CONFIRM


def test_a_file_may_hold_the_keys(project):
    project.write("config/policy.yaml", "sources: [greeter]\n")
    provenance = project.load(TWO + "provenance: {policy: config/policy.yaml, mode: enforce}\n").provenance
    assert (provenance.policy.sources, provenance.policy.mode) == (("greeter",), Mode.ENFORCE)


def test_trust_adds_to_the_policy(project):
    text = trust_text("trust: [source, sink]", "trust: quarantined")
    provenance = project.load(text + "provenance: {sinks: {plain: {mode: audit}}}\n").provenance
    assert provenance.policy.sources == ("greeter",)
    assert provenance.policy.sinks == (SinkRule("plain", mode=Mode.AUDIT), SinkRule("greeter"))
    assert provenance.quarantined == {"plain"}
    assert provenance.policy.classify("plain").relay is False


def test_no_name_decides_about_undeclared_listeners(project):
    text = trust_text("trust: [source, sink]")
    for name in ("fetch_mail", "send_mail", "opaque"):
        policy = project.load(
            text.replace("name: plain", f"name: {name}") + "provenance:\n"
        ).provenance.policy
        assert (policy.classify(name).source, policy.classify(name).sink) == (True, True)


def test_an_undeclared_listener_is_source_and_sink(project):
    policy = project.load(trust_text(two="trust: planner") + "provenance:\n").provenance.policy
    found = policy.classify("greeter")
    assert (found.source, found.sink, found.relay, found.known) == (True, True, False, False)
    assert found.why == "nothing is declared of it"
    assert policy.classify("plain").relay


def test_an_inert_listener_neither_accuses_nor_acts(project):
    policy = project.load(trust_text("trust: inert") + "provenance: {inert: [plain]}\n").provenance.policy
    for name in ("greeter", "plain"):
        found = policy.classify(name)
        assert (found.source, found.sink, found.relay, found.known) == (False, False, True, True)


def test_an_agent_that_acts_vouches_for_nothing(project):
    text = trust_text("agent: true\n    peers: []\n    trust: sink")
    found = project.load(text + "provenance:\n").provenance.policy.classify("greeter")
    assert (found.sink, found.relay) == (True, True)


@pytest.mark.parametrize(
    ("end", "finding"),
    [
        (
            "  moed: enforce",
            "organism.yaml:12: provenance.moed: unknown key 'moed' in the policy; did you mean 'mode'?",
        ),
        (
            "  mode: enforced",
            "organism.yaml:12: provenance.mode: 'enforced' is no mode; did you mean 'enforce'?",
        ),
        ("  strict: 3", "organism.yaml:12: provenance.strict: 'strict' must be yes or no, not '3'"),
        (
            "  sources: [greter]",
            'organism.yaml:12: provenance.sources[0]: "greter" means no listener (did you mean "greeter"?)',
        ),
        ("  trusted:\n    - nobody", 'organism.yaml:13: provenance.trusted[0]: "nobody" means no listener'),
        (
            "  deny: ['listener:plane']",
            'organism.yaml:12: provenance.deny[0]: "plane" means no listener',
        ),
        (
            "  readers: {greeter: {texd: [principal]}}",
            'organism.yaml:12: provenance.readers.greeter.texd: "texd" means no field of any payload (did you mean "text"?)',
        ),
        (
            "  layouts: {greeter: {texd: yaml}}",
            'organism.yaml:12: provenance.layouts.greeter.texd: "texd" means no field of any payload (did you mean "text"?)',
        ),
        (
            "  layouts: {greeter: yaml}",
            'organism.yaml:12: provenance.layouts.greeter: "greeter" needs the field that holds the text',
        ),
        (
            "  layouts: {greeter: {text: yml}}",
            "organism.yaml:12: provenance.layouts.greeter.text: 'yml' is no layout; did you mean 'yaml'?",
        ),
        (
            "  readers: {greeter: ['directory:boook']}",
            'organism.yaml:12: provenance.readers.greeter[0]: "directory:boook" means no listener',
        ),
        (
            "  fields: {greeter: {texd: prose}}",
            'organism.yaml:12: provenance.fields.greeter.texd: "texd" means no field of any payload (did you mean "text"?)',
        ),
        (
            "  sinks: {plain: {arguments: {texd: payload}}}",
            'organism.yaml:12: provenance.sinks.plain.arguments.texd: "texd" means no field that plain takes (did you mean "text"?)',
        ),
        (
            "  sinks: {plain: {arguments: {text: {role: selector, accepts: [greeter.nam]}}}}",
            'organism.yaml:12: provenance.sinks.plain.arguments.text.accepts[0]: "greeter.nam" means no field of any listener',
        ),
        (
            "  policy: /etc/passwd",
            'organism.yaml:12: provenance.policy: "/etc/passwd" is no file inside the project directory',
        ),
        ("  policy: config/polcy.yaml", '(did you mean "policy.yaml"?)'),
        ("  policy: 5", 'organism.yaml:12: provenance.policy: "5" is no file inside the project directory'),
        (
            "  policy: config/policy.yaml\n  sources: [greeter]",
            'organism.yaml:13: provenance.sources: "sources" is given in ',
        ),
        (
            "  policy: config/bad.yaml",
            "config/bad.yaml:2: sourcs: unknown key 'sourcs' in the policy; did you mean 'sources'?",
        ),
        ("  policy: config/broken.yaml", "config/broken.yaml:1: a bracket is opened here and not closed"),
        ("  policy: config/list.yaml", "config/list.yaml:1: the policy must be a mapping"),
        ("  policy: config/nobody.yaml", 'config/nobody.yaml:2: sources[0]: "nobody" means no listener'),
    ],
)
def test_nothing_is_lost_in_silence(project, end, finding):
    project.write("config/policy.yaml", "sources: [greeter]\n")
    project.write("config/bad.yaml", "mode: audit\nsourcs: [greeter]\n")
    project.write("config/broken.yaml", "a: [\n")
    project.write("config/list.yaml", "- a\n")
    project.write("config/nobody.yaml", "sources:\n  - nobody\n")
    (found,) = project.errors(TWO + "provenance:\n" + end + "\n")
    assert finding in found


def test_an_entry_that_accepts_several_fields_is_warned_about(project):
    def read(entry: str) -> list[str]:
        sinks = f"  sinks: {{plain: {{arguments: {{text: {{role: selector, accepts: ['{entry}']}}}}}}}}\n"
        return [each for each in project.findings(TWO + "provenance:\n" + sinks) if "accepts every" in each]

    (found,) = read("*.text")
    assert found.startswith("organism.yaml:12: warning: ")
    assert found.endswith("(name the one field, as listener.field)")
    assert read("greeter.text") == read("record") == []


def test_every_mistake_of_a_policy_is_reported_at_once(project):
    project.write("bad.yaml", "moed: x\nsources: a\n")
    text = TWO + "provenance:\n  mode: x\n  strict: 3\n"
    assert [found.partition(": ")[0] for found in project.errors(text)] == [
        "organism.yaml:12",
        "organism.yaml:13",
    ]
    found = project.errors(TWO + "provenance: {policy: bad.yaml}\n")
    assert [each.partition(" ")[0] for each in found] == ["bad.yaml:1:", "bad.yaml:2:"]


def test_yaml_reads_off_as_false_and_it_is_off_all_the_same(project):
    policy = project.load(TWO + "provenance: {plan: off, strict: on}\n").provenance.policy
    assert (policy.plan, policy.strict) == (PlanSource.OFF, True)


def test_provenance_is_a_mapping(project):
    (found,) = project.errors(TWO + "provenance: enforce\n")
    assert (
        found
        == 'organism.yaml:11: provenance: a mapping of keys was expected, not "enforce" ({mode: enforce} is one)'
    )
    (found,) = project.errors(TWO + "provenance: policy.yaml\n")
    assert found.endswith('not "policy.yaml" ({policy: policy.yaml} is one)')


@pytest.mark.parametrize(
    ("trust", "finding"),
    [
        ("sauce", "trust: must be 'source', 'sink', 'trusted', 'inert', 'relay', 'quarantined' or 'planner'"),
        ("[source, trusted]", "trust: a listener cannot be source and trusted"),
        ("[inert, sink]", "trust: a listener cannot be inert and sink"),
        ("[source, planner]", "trust: a listener cannot be source and planner"),
        ("[relay, quarantined]", "trust: a listener cannot be relay and quarantined"),
    ],
)
def test_trust_says_one_thing(project, trust, finding):
    errors = project.errors(trust_text(f"trust: {trust}") + "provenance:\n")
    assert any(finding in error for error in errors), errors


@pytest.mark.parametrize(
    ("trust", "policy", "finding"),
    [("source", "relays", "source, but the policy says otherwise: "),
     ("planner", "sources", "planner, but the policy says otherwise: source by 'greeter'")],
)  # fmt: skip
def test_trust_and_policy_may_not_disagree(project, trust, policy, finding):
    (found,) = project.errors(trust_text(f"trust: {trust}") + f"provenance: {{{policy}: [greeter]}}\n")
    assert finding in found


def test_the_policy_may_name_the_planner(project):
    text = trust_text("trust: [source, sink]") + "provenance: {plan: confirmed, planner: plain}\n"
    provenance = project.load(text).provenance
    assert provenance.planners == {"plain"}
    assert provenance.policy.plan is PlanSource.CONFIRMED
    assert project.findings(text) == []


@pytest.mark.parametrize(
    ("planner", "finding"),
    [
        ("plane", 'provenance.planner: "plane" means no listener (did you mean "plain"?)'),
        ("greeter", "provenance.planner: \"greeter\" fixes no plan: source by 'greeter'"),
    ],
)
def test_a_planner_is_a_listener_and_no_source(project, planner, finding):
    text = trust_text("trust: [source, sink]") + f"provenance: {{plan: required, planner: {planner}}}\n"
    (found,) = project.errors(text)
    assert finding in found


def test_a_plan_that_nobody_makes_is_pointed_at(project):
    (found,) = project.findings(
        trust_text("trust: [source, sink]", "trust: inert") + "provenance: {plan: required}\n"
    )
    assert "plan: required, and no listener is a planner, so no sink will ever run" in found


def test_a_policy_that_can_find_nothing_is_pointed_at(project):
    (undeclared,) = project.findings(trust_text("trust: source") + "provenance:\n")
    assert 'nothing is declared of "plain"' in undeclared
    found = project.findings(trust_text("trust: source", "trust: relay") + "provenance:\n")
    (warning,) = found
    assert (
        "organism.yaml:13: warning: provenance: no listener is a sink, so nothing will ever be found"
        in warning
    )
    assert project.findings(trust_text("trust: [source, sink]", "trust: inert") + "provenance:\n") == []


def test_trust_without_provenance_would_mean_nothing(project):
    (found,) = project.errors(trust_text("trust: source"))
    assert found.startswith(
        "organism.yaml:7: listeners[0].trust: has no effect without provenance: in the main file"
    )


def test_included_files_have_none(project):
    project.write("more.yaml", "provenance: {mode: audit}\n")
    (found,) = project.errors(TWO + "include: [more.yaml]\n")
    assert found == 'more.yaml:1: provenance: "provenance" belongs in the main file'


def test_marks_that_contradict_are_left_to_the_server(project):
    code = (
        CODE
        + """
from typing import Annotated
from agentserver.provenance import Standing

@xmlify
@dataclass
class Odd:
    text: Annotated[str, Standing.PROSE]

async def odd(payload: Odd, metadata: HandlerMetadata) -> None:
    return None
"""
    )
    project.write("listeners/greet.py", code)
    text = TWO.replace("greet.plain", "greet.odd").replace("greet.Reply", "greet.Odd")
    assert project.load(text + "provenance: {sources: [greeter]}\n").provenance is not None


def test_a_source_that_returns_bytes_is_refused(project):
    code = CODE.replace(
        "async def greet(",
        "async def texts(payload: Greeting, metadata) -> bytes: ...\n\n\nasync def greet(",
        1,
    )
    (project.root / "listeners" / "greet.py").write_text(code)
    told = TWO.replace("listeners.greet.greet\n", "listeners.greet.texts\n")
    assert project.load(told + "provenance: {sources: [plain], trusted: [greeter]}\n") is not None
    for said in ("sources: [greeter]", "sources: [plain]"):
        (error,) = project.errors(told + f"provenance: {{{said}}}\n")
        assert '"greeter" is a source and returns bytes' in error
        assert "return a HandlerResponse" in error


# Memory


def test_how_far_code_remembers(project):
    text = trust_text("memory: thread", "memory: server") + "provenance:\n"
    assert project.load(text).provenance.memory == {"greeter": Recall.THREAD, "plain": Recall.SERVER}
    assert project.load(trust_text("memory: listener") + "provenance:\n").provenance.memory == {}


LIFE = """
from contextlib import asynccontextmanager


@asynccontextmanager
async def resources():
    yield []
"""


@pytest.mark.parametrize(
    ("lifespan", "memory"),
    [
        ("listeners.life.resources", {"greeter": Recall.THREAD}),
        ("{use: listeners.life.resources}", {"greeter": Recall.THREAD}),
        (
            "{use: listeners.life.resources, carries: words}",
            {"greeter": Recall.THREAD, "plain": Recall.SERVER},
        ),
    ],
)
def test_a_resource_that_carries_words_makes_everybodys_memory_the_servers_who_says_nothing_else(
    project, lifespan, memory
):
    project.write("listeners/life.py", LIFE)
    found = project.load(trust_text("memory: thread") + f"lifespan: {lifespan}\nprovenance:\n")
    assert found.provenance.memory == memory
    assert found.lifespan.__name__ == "resources"


@pytest.mark.parametrize(
    ("one", "end", "finding"),
    [
        ("memory: for ever", "provenance:", "must be 'thread', 'listener' or 'server', not \"for ever\""),
        ("memory:", "provenance:", "must not be empty: remove the key, or set a value"),
        ("memory: thread", "", "has no effect without provenance: in the main file (add provenance: {mode: audit})"),
    ],
)  # fmt: skip
def test_mistakes_in_memory(project, one, end, finding):
    assert project.errors(trust_text(one) + end) == [f"organism.yaml:7: listeners[0].memory: {finding}"]


@pytest.mark.parametrize(
    ("lifespan", "finding"),
    [
        ("life", '12: lifespan: a dotted path such as "listeners.greeter.greet" was expected'),
        ("5", '12: lifespan: a dotted path such as "listeners.greeter.greet" was expected'),
        ("{carries: words}", "12: lifespan.use: is missing"),
        ("{use: life}", '12: lifespan.use: a dotted path such as "listeners.greeter.greet" was expected, not "life"'),
        ("{use: listeners.life.resources, carries: letters}", "12: lifespan.carries: must be 'words', not \"letters\""),
        ("{use: listeners.life.resources, caries: words}", '12: lifespan.caries: unknown key "caries" (did you mean "carries"?)'),
        ("{use: listeners.life.nobody}", '12: lifespan.use: there is no name "nobody" in "listeners.life" (listeners/life.py)'),
    ],
)  # fmt: skip
def test_mistakes_in_lifespan(project, lifespan, finding):
    project.write("listeners/life.py", LIFE)
    text = TWO + "provenance:\n" + f"lifespan: {lifespan}\n"
    assert project.errors(text) == [f"organism.yaml:{finding}"]


def test_a_resource_carries_nothing_without_provenance(project):
    project.write("listeners/life.py", LIFE)
    text = TWO + "lifespan: {use: listeners.life.resources, carries: words}\n"
    (found,) = project.errors(text)
    assert found.startswith("organism.yaml:11: lifespan.carries: has no effect without provenance")


# Views


def test_a_listener_may_be_shown_references(project):
    provenance = project.load(trust_text("view: references") + "provenance:\n").provenance
    assert provenance.viewers == {"greeter"}


@pytest.mark.parametrize(
    ("one", "end", "finding"),
    [
        (
            "view: references",
            "",
            "organism.yaml:7: listeners[0].view: has no effect without provenance: in the main file",
        ),
        (
            "view: handles",
            "provenance:",
            "organism.yaml:7: listeners[0].view: must be 'references'",
        ),
        (
            "trust: quarantined\n    view: references",
            "provenance:",
            "organism.yaml:8: listeners[0].view: a quarantined listener is there to read what references hide",
        ),
        ("veiw: references", "provenance:", 'did you mean "view"?'),
    ],
)
def test_mistakes_of_a_view_have_their_place(project, one, end, finding):
    assert finding in "\n".join(project.findings(trust_text(one) + end + "\n"))
