"""The keys of the engine that several servers share: the values, and the refusals with their place and correction."""

from __future__ import annotations

import pytest

from agentserver.config import glimpse
from agentserver.config.keys.models import Postgres
from tests.config.conftest import ONE

SECRET = "pass-word/of the desk"
QUOTED = "pass-word%2Fof%20the%20desk"
URL = f"postgresql://desk:{QUOTED}@db.example/desk"


def test_an_organism_with_an_engine_has_no_journal(project):
    organism = project.load(ONE + "engine: {postgres: {}}\n")
    assert (organism.journal, organism.engine) == (None, Postgres())


def test_every_key_has_its_place(project):
    project.environ["DATABASE_URL"] = URL
    organism = project.load(
        ONE
        + "engine: {postgres: {url: '${DATABASE_URL}', schema: desk_2, migrate: never, wait: 60s, lease: 3s, "
        + "durability: relaxed, retention: 7d}}\n"
    )
    assert organism.engine == Postgres(
        url=URL,
        schema="desk_2",
        migrate="never",
        wait=60.0,
        lease=3.0,
        durability="relaxed",
        retention=7 * 86_400.0,
    )


def test_the_password_is_in_no_text(project):
    project.environ["DATABASE_URL"] = URL
    organism = project.load(ONE + "engine: {postgres: {url: '${DATABASE_URL}'}}\n")
    assert SECRET not in repr(organism)
    assert QUOTED not in repr(organism)
    for form in (URL, SECRET, QUOTED):
        assert organism.secrets.redact(f"cannot: {form}.") == "cannot: [redacted]."


def test_a_password_in_the_file_is_refused_and_not_repeated(project):
    (found,) = project.findings(ONE + f"engine:\n  postgres:\n    url: {URL}\n")
    assert found == (
        "organism.yaml:9: engine.postgres.url: the password is written into the file, readable for its readers "
        "(url: ${DATABASE_URL}, or the variable PGPASSWORD)"
    )


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ("url: 'mysql://desk@db/desk'", "url: is not the address of a database such as"),
        ("url: 'host=db password=hidden'", "url: is not the address of a database such as"),
        ("url: 'postgresql://[db/desk'", "url: is not the address of a database such as"),
        (
            "url: 'postgresql://desk:hidden/word@db/desk'",
            "url: has a port that is not a number, or a password",
        ),
        (
            "url: 'postgresql://desk:hidden#word@db/desk'",
            "url: has a port that is not a number, or a password",
        ),
        (
            "url: 'postgresql://desk:hidden@word@db/desk'",
            "url: has a port that is not a number, or a password",
        ),
        ("url: 'postgresql://one:5432,two:54x2/desk'", "url: has a port that is not a number, or a password"),
        ("schema: Desk", "schema: may hold a to z, digits and _ only, at most 40"),
        ("schema: pg_desk", 'schema: "pg_desk" is a schema of the database itself'),
        ("lease: 500ms", "lease: must be at least 1 s"),
        ("durability: some", "durability: must be 'full' or 'relaxed'"),
        ("migrate: always", "migrate: must be 'auto' or 'never'"),
        ("shema: desk", 'shema: unknown key "shema" (did you mean "schema"?)'),
    ],
)
def test_a_mistake_names_its_key(project, keys, told):
    (found,) = project.findings(ONE + f"engine: {{postgres: {{{keys}}}}}\n")
    assert found.startswith(f"organism.yaml:7: engine.postgres.{told}")
    assert "hidden" not in found


def test_a_journal_together_with_an_engine_is_refused(project):
    (found,) = project.findings(ONE + "journal: {path: a.db}\nengine: {postgres: {}}\n")
    assert found == (
        "organism.yaml:7: journal: journal: and engine: are both there, and conversations are kept in one place "
        "(remove journal:, or engine:)"
    )
    assert not project.findings(ONE + "journal: none\nengine: {postgres: {}}\n")


@pytest.mark.parametrize("asked", ["synchronous_commit=off", "options=-c%20synchronous_commit%3Doff"])
def test_a_database_that_loses_acknowledged_commits_is_refused_unless_asked_for(project, asked):
    engine = f"engine:\n  postgres:\n    url: postgresql://db/desk?{asked}\n"
    (found,) = project.findings(ONE + engine)
    assert found == (
        "organism.yaml:9: engine.postgres.url: synchronous_commit=off acknowledges messages that a loss of power takes "
        'back ("durability: relaxed", if intended)'
    )
    assert not project.findings(ONE + engine + "    durability: relaxed\n")


def test_the_engine_without_its_extra_names_the_command(project, monkeypatch):
    monkeypatch.setattr("agentserver.config.keys.models.is_installed", lambda extra: extra != "postgres")
    (found,) = project.findings(ONE + "engine: {postgres: {}}\n")
    assert found.startswith(
        "organism.yaml:7: engine.postgres: needs the extra postgres: in a checkout, pip install"
    )


def test_verbs_learn_the_engine_of_an_organism_that_does_not_load(project):
    path = project.write(
        "organism.yaml", ONE.replace("listeners.greet", "nowhere.greet") + "engine: {postgres: {}}\n"
    )
    seen = glimpse.read_glimpse(path, {})
    assert (seen.engine, seen.journal, seen.unkept) == (Postgres(), None, False)


@pytest.mark.parametrize(
    "path", ["engine: {postgres: '%s'}", "engine: '%s'", "journal: '%s'", "http: {bind: '%s'}"]
)
def test_an_address_with_a_password_is_repeated_in_no_mistake(project, path):
    found = project.findings(ONE + path % URL + "\n")
    assert found
    assert QUOTED not in "".join(found)


@pytest.mark.parametrize("hosts", ["db", "db:5432", "one:5432,two", "[::1]:5432", "%2Frun%2Fpostgresql", ""])
def test_an_address_may_name_several_hosts_and_a_folder(project, hosts):
    assert (
        project.load(ONE + f"engine: {{postgres: {{url: 'postgresql://{hosts}/desk'}}}}\n").engine is not None
    )


def test_mistakes_of_the_engine_are_seen_without_loading(project):
    project.write("organism.yaml", ONE + "engine: {postgres: {shema: desk}}\n")
    seen = glimpse.read_glimpse(project.root / "organism.yaml", {})
    assert seen.engine is None
    assert "engine.postgres.shema: unknown key" in seen.mistakes


@pytest.mark.parametrize(
    ("yaml", "found"),
    [
        ("{postgres: {ur: '${URL}'}}", 'engine.postgres.ur: unknown key "ur" (did you mean "url"?)'),
        (
            "{postgress: {url: '${URL}'}}",
            'engine.postgress: unknown key "postgress" (did you mean "postgres"?)',
        ),
    ],
)
def test_a_misspelt_key_is_named_though_a_part_of_its_path_is_a_password(project, yaml, found):
    url = "postgresql://postgres:postgres@localhost/postgres"
    project.environ["URL"] = url
    findings = project.findings(f"{ONE}engine: {yaml}\n")
    assert any(each.endswith(found) for each in findings), findings
