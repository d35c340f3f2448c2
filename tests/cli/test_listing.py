"""Lists of the command line: a table on a terminal, cells between tabs elsewhere."""

from __future__ import annotations

import json

from agentserver.cli.listing import (
    CELL,
    ID,
    MESSAGE,
    ListPrinter,
    RecordPrinter,
    format_table,
    make_time_column,
)

ROWS = [
    {"id": "a1", "at": 0.0, "sender": "clerk", "to": "vault", "root": "Greet", "codes": ["failed", "busy"]},
    {"id": "b", "at": None, "sender": "me", "to": "you", "root": "Go", "codes": []},
]
COLUMNS = ("id", make_time_column("at"), MESSAGE, "codes")


def test_a_terminal_gets_aligned_columns_below_their_names_cut_to_its_width():
    assert [*format_table(ROWS, COLUMNS, 60)] == [
        "ID  AT                   MESSAGE               CODES",
        "a1  1970-01-01 00:00:00  clerk -> vault Greet  failed, busy",
        "b   -                    me -> you Go          -",
    ]
    assert all(len(line) <= 30 for line in format_table(ROWS, COLUMNS, 30))


def test_without_a_terminal_a_line_has_a_cell_for_every_column_and_no_heading():
    assert [line.split("\t") for line in format_table(ROWS, COLUMNS, None)] == [
        ["a1", "1970-01-01 00:00:00", "clerk -> vault Greet", "failed, busy"],
        ["b", "-", "me -> you Go", "-"],
    ]


def test_a_cell_cannot_pass_for_two_cells_or_two_lines():
    (line,) = format_table([{"id": "x\ty\nz\x1b[31m"}], ["id"], None)
    assert line.isprintable()


def test_a_shortened_list_and_an_empty_one_say_so(capsys):
    ListPrinter(as_json=True, limit=1).print(ROWS, COLUMNS, "nothing is there")
    ListPrinter(as_json=False, limit=1).print([], COLUMNS, "nothing is there")
    printed = capsys.readouterr()
    assert json.loads(printed.out)["id"] == "a1"
    assert printed.err == "only the first one is listed; --limit lists more\nnothing is there\n"


def test_a_line_of_a_records_value_cannot_pass_for_another_value(capsys):
    RecordPrinter(as_json=False).print(
        {"reason": "boo\ndigest: 1", "empty": None}, ["reason", "empty"], ["x: a\ny"]
    )
    assert capsys.readouterr().out == "reason: boo\n    digest: 1\nx: a\n    y\n"


def test_a_terminal_shows_as_much_of_each_id_as_distinguishes_it():
    rows = [{"id": f"{start}-97d4-11ee"} for start in ("7f9ebb1f-2d2d", "7f9ebb1f-5239", "0c44d90f-7101")]
    assert [*format_table(rows, [ID], 80)] == ["ID", "7f9ebb1f-2", "7f9ebb1f-5", "0c44d90f-7"]
    assert [*format_table(rows[1:], [ID], 80)] == ["ID", "7f9ebb1f", "0c44d90f"]
    assert [*format_table(rows, [ID], None)] == [row["id"] for row in rows]


def test_a_shortened_cell_ends_with_a_mark():
    (line,) = format_table([{"reason": "x" * (CELL + 1)}], ["reason"], None)
    assert line == "x" * (CELL - 1) + "…"


def test_a_truth_value_reads_as_yes_or_no(capsys):
    RecordPrinter(as_json=False).print({"open": True, "agent": False}, ["open", "agent"])
    assert capsys.readouterr().out == "open: yes\nagent: no\n"


def test_wide_characters_take_two_columns_of_a_terminal():
    rows = [{"name": "漢字", "count": 1}, {"name": "ann", "count": 20}]
    assert [*format_table(rows, ["name", "count"], 80)] == ["NAME  COUNT", "漢字      1", "ann      20"]
    assert [*format_table([{"name": "漢字漢字"}], ["name"], 6)] == ["NAME", "漢字…"]


def test_an_id_that_begins_with_digits_is_no_number_and_stays_at_the_left():
    ids = ["18691772-8efc-2a4c-f2c4-bacee133a714"]
    assert [*format_table([{"id": one, "to": "desk"} for one in ids], [ID, "to"], 60)] == [
        "ID        TO",
        "18691772  desk",
    ]
