from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.config.findings import Mistakes
from agentserver.config.yaml.document import Document
from agentserver.config.yaml.sources import MAX_FILE_BYTES, substitute


def run(text, environ=None, directory=Path("/nowhere")):
    document = Document(Path("a.yaml"), directory, {"x": [text, 5]}, {(): 1, ("x",): 2, ("x", 0): 3}, {})
    report = Mistakes()
    changed, values = substitute(document, environ or {}, report)
    return changed.data["x"][0], values, [str(f) for f in report.findings], changed.substituted


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("${A}", "one"),
        ("<${A}-${B}>", "<one-two>"),
        ("$${A}", "${A}"),
        ("$$${A}", "$${A}"),
        ("$A $ {A} }", "$A $ {A} }"),
        ("${NESTED}", "${A}"),
        ("${EMPTY}", ""),
    ],
)
def test_variables(text, result):
    environ = {"A": "one", "B": "two", "NESTED": "${A}", "EMPTY": ""}
    assert run(text, environ)[0] == result


def test_values_put_in_are_secrets_and_their_places_known():
    _, values, findings, places = run("${A} ${A}", {"A": "one"})
    assert (values, findings, places) == (["one", "one"], [], {("x", 0)})
    assert run("$${A}", {"A": "one"})[3] == frozenset()


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("${TOKN}", 'a.yaml:3: x[0]: the environment variable TOKN is not set (did you mean "TOKEN"?)'),
        ("${}", 'a.yaml:3: x[0]: "${}" is neither ${NAME} nor ${file:path} (write $${ for a literal ${)'),
        ("${A:-b}", 'a.yaml:3: x[0]: "${A:-b}" is neither'),
        ("${A", 'a.yaml:3: x[0]: "${" is neither'),
        ("${file:secret}", 'a.yaml:3: x[0]: cannot read "secret": there is no such file'),
        ("${file:}", 'a.yaml:3: x[0]: cannot read "": there is no such file'),
        ("${file:a\0b}", 'a.yaml:3: x[0]: cannot read "a\0b": its name holds a NUL'),
    ],
)
def test_invalid_interpolations(text, finding):
    result, values, findings, places = run(text, {"TOKEN": "x"})
    assert (result, values, places) == (text, [], frozenset())
    assert len(findings) == 1
    assert findings[0].startswith(finding)


@pytest.mark.parametrize(
    ("content", "result"),
    [(b"key\n", "key"), (b"key\r\n", "key"), (b"key\n\n", "key\n"), (b"key", "key"), (b"", "")],
)
def test_a_file_loses_one_trailing_newline(tmp_path, content, result):
    (tmp_path / "secret").write_bytes(content)
    assert run("${file:secret}", directory=tmp_path)[:3] == (result, [result], [])


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"\xff", "it is not UTF-8 text"), (b"x" * (MAX_FILE_BYTES + 1), "it is larger than 65536 bytes")],
)
def test_a_file_that_is_refused(tmp_path, content, reason):
    (tmp_path / "secret").write_bytes(content)
    assert run("${file:secret}", directory=tmp_path)[2] == [f'a.yaml:3: x[0]: cannot read "secret": {reason}']


@pytest.mark.parametrize(
    ("error", "reason"),
    [(PermissionError(13, "Permission denied"), "Permission denied"), (OSError(), "it is not readable")],
)
def test_a_file_that_cannot_be_opened(tmp_path, monkeypatch, error, reason):
    def refuse(*args, **kwargs):
        raise error

    (tmp_path / "secret").write_text("x")
    monkeypatch.setattr(Path, "open", refuse)
    assert run("${file:secret}", directory=tmp_path)[2] == [f'a.yaml:3: x[0]: cannot read "secret": {reason}']


@given(value=st.text())
def test_a_value_never_becomes_structure(value):
    assert run("${A}", {"A": value})[0] == value
    assert run("a${A}b", {"A": value})[0] == f"a{value}b"


@given(text=st.text(alphabet="$ {}AB:", max_size=12).filter(lambda text: "$${" not in text))
def test_escaping_is_the_inverse_of_reading(text):
    assert run(text.replace("${", "$${"))[:3] == (text, [], [])
