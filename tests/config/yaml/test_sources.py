import pytest

from tests.config.conftest import ONE

OTHER = """
    listeners:
      - name: other
        handler: listeners.greet.plain
        payload_class: listeners.greet.Reply
        description: d
    """


def test_included_listeners_and_limits_join(project):
    project.write("config/more/other.yaml", OTHER + "\n    limits: {hops: 5}\n    include: [deep.yaml]\n")
    project.write("config/more/deep.yaml", "limits: {queue: 7}\n")
    organism, findings = project.inspect(
        ONE.replace("description: Greets.", "description: Greets.\n    peers: [other]")
        + "include: [more/other.yaml]\nlimits: {messages: 9}\n",
        "config/organism.yaml",
    )
    assert findings == ()
    assert [bound.listener.name for bound in organism.listeners] == ["greeter", "other"]
    assert (organism.limits.hops, organism.limits.queue, organism.limits.messages) == (5, 7, 9)
    assert organism.files == tuple(
        project.root / "config" / name for name in ("organism.yaml", "more/other.yaml", "more/deep.yaml")
    )
    assert str(organism.listeners[1].source).endswith("config/more/other.yaml:3")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing.yaml", 'there is no file "missing.yaml" beside this one'),
        (
            "../out.yaml",
            '"../out.yaml" is outside the project directory; includes are relative and stay inside',
        ),
        ("link.yaml", '"link.yaml" is outside the project directory; includes are relative and stay inside'),
        (
            "/etc/passwd",
            '"/etc/passwd" is outside the project directory; includes are relative and stay inside',
        ),
        ("organism.yaml", '"organism.yaml" includes itself, directly or through others'),
        ("loop.yaml", None),
        ("listeners", 'there is no file "listeners" beside this one'),
    ],
)
def test_refused_includes(project, name, reason):
    (project.root.parent / "out.yaml").write_text("limits: {hops: 5}\n")
    (project.root / "link.yaml").symlink_to(project.root.parent / "out.yaml")
    project.write("loop.yaml", "include: [organism.yaml]\n")
    (error,) = project.errors(ONE + f"include: [{name}]\n")
    if reason is None:
        assert error == 'loop.yaml:1: include[0]: "organism.yaml" includes itself, directly or through others'
    else:
        assert error == f"organism.yaml:7: include[0]: {reason}"


def test_a_file_is_included_once(project):
    project.write("a.yaml", "limits: {}\n")
    (error,) = project.errors(ONE + "include: [a.yaml, ./a.yaml]\n")
    assert error == 'organism.yaml:7: include[1]: "./a.yaml" is included twice'


def test_files_are_bounded(project, monkeypatch):
    monkeypatch.setattr("agentserver.config.yaml.sources.MAX_FILES", 2)
    project.write("a.yaml", "limits: {}\n")
    project.write("b.yaml", "limits: {}\n")
    (error,) = project.errors(ONE + "include: [a.yaml, b.yaml]\n")
    assert error == "organism.yaml:7: include[1]: more than 2 files"


def test_malformed_includes_are_reported_once(project):
    assert project.errors(ONE + 'include: [5, "a\\0b"]\n') == [
        "organism.yaml:7: include[0]: text was expected; YAML reads this as the number 5 (quote it)",
        "organism.yaml:7: include[1]: must be one line without control or invisible characters",
    ]
    assert project.errors(ONE + "include: a.yaml\n") == [
        'organism.yaml:7: include: a list was expected, not "a.yaml" ([a.yaml] is one)'
    ]


def test_an_included_file_holds_listeners_and_limits_only(project):
    project.write("a.yaml", "name: x\nlimit: {}\n")
    project.write("b.yaml", "[")
    assert project.errors(ONE + "include: [a.yaml, b.yaml]\n") == [
        'a.yaml:1: name: "name" belongs in the main file',
        'a.yaml:2: limit: unknown key "limit" (did you mean "limits"?)',
        "b.yaml:1: a bracket is opened here and not closed, or a comma is missing after it",
    ]


def test_a_limit_is_set_once_and_a_name_given_once(project):
    project.write("a.yaml", OTHER.replace("other", "greeter") + "\n    limits: {hops: 5}\n")
    assert project.errors(ONE + "include: [a.yaml]\nlimits: {hops: 6}\n") == [
        'a.yaml:3: listeners[0].name: duplicate listener "greeter" (first at organism.yaml:4)',
        "a.yaml:8: limits.hops: is already set at organism.yaml:8",
    ]


def test_references_are_relative_to_their_own_file(project):
    project.write("parts/text", "hello\n")
    project.write("parts/a.yaml", OTHER.replace("description: d", 'description: "${file:text}"'))
    organism, findings = project.inspect(ONE + "include: [parts/a.yaml]\n")
    assert organism.listeners[1].listener.description == "hello"
    assert [f.message for f in findings] == [
        "shows a value from ${...} to peers and models, and log output hides it"
    ]
