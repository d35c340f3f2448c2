import re
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentserver.config.findings import Mistakes, SourceSpan
from agentserver.config.yaml import document
from agentserver.config.yaml.document import MAX_DEPTH, MAX_VALUES, read
from tests.fuzzing import examples


def attempt(tmp_path, text):
    path = tmp_path / "a.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    report = Mistakes()
    return read(path, Path("a.yaml"), report), [str(finding) for finding in report.findings]


def test_values_and_lines(tmp_path):
    document, findings = attempt(
        tmp_path, "a: 1\nb:\n  - x\n  - {c: 1.5, d: true}\ne: ~\nf:\ng: -07x\nh: 1e3\n"
    )
    assert findings == []
    assert document.data == {
        "a": 1,
        "b": ["x", {"c": 1.5, "d": True}],
        "e": None,
        "f": None,
        "g": "-07x",
        "h": "1e3",
    }
    assert [document.lines[at] for at in [(), ("a",), ("b",), ("b", 0), ("b", 1, "d"), ("h",)]] == [
        1,
        1,
        2,
        3,
        4,
        8,
    ]
    assert document.read_as[("f",)] == "nothing"
    assert document.read_as[("b", 1, "d")] == "the boolean true"
    assert document.directory == tmp_path


def test_the_place_of_a_missing_value_is_the_nearest_around_it(tmp_path):
    document, _ = attempt(tmp_path, "a:\n  b: 1\n")
    assert document.locate(("a", "c")) == SourceSpan(Path("a.yaml"), 1, "a")
    assert document.locate(("a", "c"), missing=True) == SourceSpan(Path("a.yaml"), 1, "a.c")
    assert document.locate(("a", "b")) == SourceSpan(Path("a.yaml"), 2, "a.b")


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("", 'a.yaml:1: a mapping with "name" and "listeners" was expected'),
        ("- a", 'a.yaml:1: a mapping with "name" and "listeners" was expected'),
        (
            "a: 1\n---\nb: 2",
            "a.yaml:2: a second document begins here: take the line of three hyphens out",
        ),
        ("a: [1, 2", "a.yaml:1: a bracket is opened here and not closed"),
        (
            "a: 1\nb: !!python/object:os.system x",
            'a.yaml:2: not valid YAML: the tag "tag:yaml.org,2002:python/object',
        ),
        ("a: !!str 1", "a.yaml:1: not valid YAML: the tag"),
        ("a: ! 1", 'a.yaml:1: not valid YAML: the tag "!" is not accepted'),
        ("a: 1\nb: \x07", "a.yaml:2: not valid YAML: a control character"),
        (b"a: 1\nb: \xff", "a.yaml:2: is not UTF-8 (save it in that encoding)"),
        ("a: *x", "a.yaml:1: *x is an alias without an anchor &x"),
        ("a: " + "[" * 2000, f"a.yaml:1: not valid YAML: more than {MAX_DEPTH} levels of nesting"),
        ("a: &x [*x]", "a.yaml:1: not valid YAML: too large or too deep with its aliases expanded"),
        ("#" * (1 << 20) + "\n", "a.yaml:1: is larger than 1048576 bytes"),
    ],
)
def test_refused_whatever_it_means(tmp_path, text, finding):
    document, findings = attempt(tmp_path, text)
    assert document is None
    assert len(findings) == 1
    assert findings[0].startswith(finding)


def test_an_alias_bomb_stops_at_the_bound(tmp_path):
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 20)]
    document, findings = attempt(tmp_path, "\n".join(levels))
    assert document is None
    assert "too large or too deep" in findings[0]
    assert MAX_VALUES <= 100_000


def test_an_alias_for_a_value_is_taken(tmp_path):
    document, findings = attempt(tmp_path, "a: &x [1, 2]\nb: *x")
    assert (document.data["b"], findings) == ([1, 2], [])


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("a: 1\na: 2", "a.yaml:2: a: duplicate key (first on line 1)"),
        ("x: {b: 1, b: 2}", "a.yaml:1: x.b: duplicate key (first on line 1)"),
        (
            "x:\n  - b: 1\n    b: 2",
            "a.yaml:3: x[0].b: duplicate key (first on line 2) (a dash begins another entry)",
        ),
        ("x: &x {b: 1}\ny: {<<: *x}", 'a.yaml:2: y: the merge key "<<" is not accepted (write the keys out)'),
        ("? [a]\n: 1", "a.yaml:1: a key must be text"),
        ("x:\n  no: 1", 'a.yaml:2: x: the key the boolean no (quote it: "no")'),
        ("x: {5: 1}", 'a.yaml:1: x: the key the number 5 (quote it: "5")'),
        (
            "a: 12:30",
            'a.yaml:1: a: YAML 1.1 reads 12:30 as a number, and not as it looks (quote it: "12:30"; a number is digits)',
        ),
        (
            "a: 010",
            'a.yaml:1: a: YAML 1.1 reads 010 as a number, and not as it looks (quote it: "010"; a number is digits)',
        ),
        (
            "a: 1:30.5",
            'a.yaml:1: a: YAML 1.1 reads 1:30.5 as a number, and not as it looks (quote it: "1:30.5"; a number is digits)',
        ),
        (
            "a: .inf",
            'a.yaml:1: a: YAML 1.1 reads .inf as a number, and not as it looks (quote it: ".inf"; a number is digits)',
        ),
        ("a: 2024-01-01", "a.yaml:1: a: YAML 1.1 reads 2024-01-01 as a date or time, and not as it looks"),
        ("a: " + "9" * 5000, "a.yaml:1: a: YAML 1.1 reads 999"),
    ],
)
def test_refused_and_read_on(tmp_path, text, finding):
    document, findings = attempt(tmp_path, text + "\nlast: 1\n")
    assert document.data["last"] == 1
    assert len(findings) == 1
    assert findings[0].startswith(finding)


def test_unopenable_files(tmp_path):
    report = Mistakes()
    assert read(tmp_path, Path("d"), report) is None
    assert [str(f) for f in report.findings] == ["d:1: there is no such file"]


def test_an_unreadable_file(tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    (tmp_path / "a.yaml").write_text("a: 1")
    monkeypatch.setattr(Path, "open", refuse)
    report = Mistakes()
    assert read(tmp_path / "a.yaml", Path("a.yaml"), report) is None
    assert [str(f) for f in report.findings] == ["a.yaml:1: cannot be read: Permission denied"]


@settings(max_examples=examples(200))
@given(text=st.text(alphabet="ab:-[]{}&*!|>'\"#%@ \n\t0159.,?~<", max_size=60))
def test_any_text_is_read_or_refused(tmp_path_factory, text):
    document, findings = attempt(tmp_path_factory.getbasetemp(), text)
    assert document is not None or findings


PIECES = st.sampled_from(
    ["a", "b: ", "- ", "? ", ": ", "\n", "\n  ", "\n    ", "[", "]", "{", "}", ", ", '"', "'", "|\n", ">-\n ",
     "&x ", "*x", "!t ", "#c", "---\n", "...\n", "no", "1.5", "~", "%Y", "\u00e9", "\u2028", "\x85"]
)  # fmt: skip


@settings(max_examples=examples(400), deadline=None)
@given(st.lists(PIECES, max_size=25).map("".join))
@example("---\n#c")
def test_libyaml_and_the_pure_parser_read_alike(text):
    last = len(re.split("\r\n|[\n\r\x85\u2028\u2029]", text))

    def read_as(composer):
        walk = document._Walk(Path("a.yaml"), Mistakes())
        try:
            node = composer(text).get_single_node()
            if node is None:
                return None
            value = walk.read_value(node, ())
            # libyaml places an empty document after a last comment on the line after the text.
            return value, {loc: min(line, last) for loc, line in walk.lines.items()}, walk.read_as
        except yaml.YAMLError:
            return "refused"

    quick = read_as(document._LibComposer)
    assert quick in ("refused", read_as(document._PlainComposer))
