from __future__ import annotations

import math
from pathlib import Path

import pytest

from agentserver.provenance.confidentiality.readers import ReaderRule
from agentserver.provenance.evidence.labels import Mode, Role, Standing
from agentserver.provenance.policy.declarations import (
    ArgumentRule,
    Effect,
    FieldRule,
    PlanSource,
    Policy,
    Rule,
    SinkRule,
)
from agentserver.provenance.policy.file import PolicyError, read_policy

WHOLE = """
mode: enforce
sources: [fetch_*, read_mail]
trusted: [clock]
relays: [planner]
inert: [calculator]
fields:
  read_mail: {body: prose, sender: directory, file: {id: file}, from: {standing: own, id: user}, "*": record}
sinks:
  send_email:
    arguments:
      to: destination
      url: {role: destination, accepts: [read_mail.body, fetch_page]}
      file: {role: selector, id: file, values: [draft.txt, 7]}
    mode: confirm
    effects: {link: block}
  delete_file:
allow: ["@corp.com"]
deny: [eve@corp.com]
query_authorises: no
plan: required
strict: off
follow_links: no
effects: {content: block}
limit: 1_000_000
budget: 12
exit_budget: 20
readers:
  payroll: [principal, "@hr.example"]
  read_mail: {body: ["directory:book.email"], "*": []}
"""


def test_every_key_is_read() -> None:
    arguments = (
        ArgumentRule("to", Role.DESTINATION),
        ArgumentRule("url", Role.DESTINATION, ("read_mail.body", "fetch_page")),
        ArgumentRule("file", Role.SELECTOR, id="file", values=("draft.txt", "7")),
    )
    assert read_policy(WHOLE) == Policy(
        mode=Mode.ENFORCE,
        sources=("fetch_*", "read_mail"),
        sinks=(
            SinkRule("send_email", arguments, Mode.CONFIRM, ((Rule.LINK, Effect.BLOCK),)),
            SinkRule("delete_file"),
        ),
        trusted=("clock",),
        relays=("planner",),
        inert=("calculator",),
        fields=(
            FieldRule("read_mail", "body", Standing.PROSE),
            FieldRule("read_mail", "sender", Standing.DIRECTORY),
            FieldRule("read_mail", "file", Standing.RECORD, "file"),
            FieldRule("read_mail", "from", Standing.OWN, "user"),
            FieldRule("read_mail", "*", Standing.RECORD),
        ),
        allow=("@corp.com",),
        deny=("eve@corp.com",),
        query_authorises=False,
        plan=PlanSource.REQUIRED,
        follow_links=False,
        effects=((Rule.CONTENT, Effect.BLOCK),),
        limit=1_000_000,
        budget=12,
        exit_budget=20,
        readers=(
            ReaderRule("payroll", "*", ("principal", "@hr.example")),
            ReaderRule("read_mail", "body", ("directory:book.email",)),
            ReaderRule("read_mail", "*", ()),
        ),
    )


def test_omitted_keys_have_the_default() -> None:
    assert read_policy("mode: audit") == Policy()
    assert read_policy("sinks: [a, b]").sinks == (SinkRule("a"), SinkRule("b"))
    assert Policy().budget == math.inf


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("mode: enforced", "p:1: 'enforced' is no mode; did you mean 'enforce'"),
        ("mode: audit\nsink: [a]", "p:2: unknown key 'sink' in the policy; did you mean 'sinks'"),
        ("deny: [a]\ndeny: [b]", "p:2: 'deny' is given twice"),
        ("deny: a", "p:1: 'deny' must be a list, such as [one, two]"),
        ("deny: [[a]]", "an entry of 'deny' must be a text"),
        ("deny: ['']", "must be a text"),
        ("strict: maybe", "'strict' must be yes or no, not 'maybe'"),
        ("limit: -1", "positive whole number"),
        ("limit: 0", "positive whole number"),
        ("exit_budget: 0", "positive whole number"),
        (f"limit: {'9' * 5000}", "positive whole number"),
        ("limit: ²", "positive whole number"),
        ("readers: {a: ['@']}", "p:1: '@' names no reader; principal, directory:listener, an address"),
        ("readers: {a: ['directory:']}", "'directory:' names no reader"),
        ("readers: {a: {}}", "at least 1 item"),
        ("readers: {a: {b: c}}", "'b' must be a list"),
        ("readers: {a: b}", "the readers of 'a' must be a mapping"),
        ("readers: [a]", "'readers' must be a mapping"),
        ("fields: [a]", "'fields' must be a mapping"),
        ("fields: {a: {b: trusted}}", "'trusted' is no standing; known are prose, record, directory, own"),
        ("effects: {contents: block}", "unknown rule 'contents'; did you mean 'content'"),
        ("effects: {content: stop}", "'stop' is no effect"),
        ("sinks: {a: {argument: {}}}", "unknown key 'argument' in sink 'a'"),
        ("sinks: {a: x}", "sink 'a' must be a mapping"),
        ("sinks: {a: {arguments: {b: {accepts: [c]}}}}", "argument 'b' has no role"),
        ("sinks: {a: {arguments: {b: receiver}}}", "'receiver' is no role"),
        ("fields: {a: {b: {ids: file}}}", "unknown key 'ids' in field 'b'; did you mean 'id'"),
        ("fields: {a: {b: {standing: recor}}}", "'recor' is no standing; did you mean 'record'"),
        ("fields: {a: {b: {id: ''}}}", "'id' must be a text"),
        ("sinks: {a: {arguments: {b: {role: selector, value: [c]}}}}", "unknown key 'value' in argument 'b'"),
        ("sinks: {a: {arguments: {b: {role: selector, values: c}}}}", "'values' must be a list"),
        ("plan: query", "'query' is no plan; known are off, optional, required"),
        ("inert: a", "'inert' must be a list"),
        (
            "deny: ['@']",
            "p:1: '@' in 'deny' names no destination; an address, a host, a link or a name",
        ),
        ("deny:\n- a\n- []", "p:3: an entry of 'deny' must be a text"),
        ("sinks:\n- a\n- []", "p:3: an entry of 'sinks' must be a text"),
        ("sinks: a", "'sinks' must be a mapping"),
        ("sinks: {a: {arguments: {b: [c]}}}", "'b' must be a text"),
        ("sinks: {a: {effects: {link: blok}}}", "'blok' is no effect; did you mean 'block'"),
        ("sinks: {a: {mode: }}", "'mode' must be a text"),
        ("sources:", "'sources' must be a list"),
        ("plan:", "'plan' must be a text"),
        ("fields: {a: {b: prose}, a: {}}", "p:1: 'a' is given twice in 'fields'"),
        ("fields: {a: {b: prose, b: own}}", "p:1: 'b' is given twice in the fields of 'a'"),
        ("fields: {a: [b]}", "the fields of 'a' must be a mapping"),
        ("? [a]\n: b", "a key must be a text"),
        ("sources: &a [*a]", "too large or too deep"),
        (
            "a: &a [x, x]\nb: &b [*a, *a, *a]\n"
            + "".join(
                f"{c}: &{c} [{', '.join([f'*{p}'] * 9)}]\n" for p, c in zip("bcdefg", "cdefgh", strict=True)
            ),
            "too large or too deep",
        ),
        ("mode: enforced\nlimit: 0", "did you mean 'enforce'?\np:2: 'limit' must be"),
        ("- a", "the policy must be a mapping"),
        ("", "empty"),
        ("a: [", "p:1: a bracket is opened here and not closed, or a comma is missing after it"),
        ("mode audit\nlimit: 1", 'p:1: "mode audit" is no key: write a colon and a space after it'),
    ],
)
def test_errors_name_line_key_and_a_likely_correction(text: str, told: str) -> None:
    with pytest.raises(PolicyError) as refused:
        read_policy(text, "p")
    assert told in str(refused.value)


def test_the_benchmarks_policy_reads_and_names_only_tools_and_fields() -> None:
    path = Path(__file__).parents[3] / "benchmarks" / "agentdojo" / "general.yaml"
    text = path.read_text()
    assert read_policy(text).mode is Mode.ENFORCE
    assert "@" not in text.replace('"@', "")
