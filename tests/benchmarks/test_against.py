"""The rows of `./run bench --against`, without a benchmark."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / ".ci"))

import bench


def test_a_row_has_the_least_of_each_tree_and_the_spread_of_the_ratios_of_rounds():
    row = bench.ratio_row("a hop", [3.0, 2.0, 8.0], [6.0, 4.0, 8.0])
    assert row.split() == ["a", "hop", "2.00", "4.00", "0.500", "0.500", "1.000"]


def test_an_unknown_benchmark_is_refused_with_the_names_of_all():
    with pytest.raises(bench.BenchError, match=r"no benchmark hops; there are .*hop"):
        bench.choose(["hops"])


def test_an_unknown_commit_is_refused_with_the_output_of_git():
    with pytest.raises(bench.BenchError, match="status 128"), bench.earlier_tree("no-such-commit"):
        pass


def test_each_benchmark_with_options_of_its_own_exists():
    assert {*bench.QUICK, *bench.COMPARED} <= set(bench.SCRIPTS)
