"""What the documentation shows is what there is."""

from __future__ import annotations

import ast
import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import click
import pytest
import yaml
from jsonschema import Draft201909Validator, Draft202012Validator

from agentserver.cli import VERBS, cli

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")})


def compare_generated(*parts):
    """Compare generated files with the code. Returns the process, which has ended."""
    return subprocess.run(
        [sys.executable, str(ROOT / "docs" / "generate.py"), "--check", *parts],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("part", runpy.run_path(str(ROOT / "docs" / "generate.py"))["PARTS"])
def test_a_file_that_is_derived_from_the_code_is_current(part):
    done = compare_generated(part)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_unknown_part_is_refused_with_those_that_exist():
    done = compare_generated("keyz")
    assert (done.returncode, "keys, codes" in done.stderr) == (1, True)


def test_every_key_of_the_schema_is_on_the_page_of_keys():
    schema = json.loads((ROOT / "schemas" / "organism.schema.json").read_text("utf-8"))
    entries = [schema, *schema["$defs"].values()]
    wanted = {key for entry in entries for key in entry.get("properties", {})}
    page = (ROOT / "docs" / "keys.md").read_text("utf-8")
    assert wanted <= set(re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE))


def test_every_command_and_each_of_its_options_is_on_the_page_of_commands():
    def every(command, words):
        yield words, {option for each in command.params for option in each.opts if option.startswith("--")}
        for name, below in getattr(command, "commands", {}).items():
            yield from every(below, (*words, name))

    context = click.Context(cli)
    for name in cli.list_commands(context):
        assert cli.get_command(context, name) is not None  # imports the module of the verb
    page = (ROOT / "docs" / "commands.md").read_text("utf-8")
    sections = dict(re.findall(r"(?ms)^##+ ([\w -]+?)\n(.*?)(?=^##+ |\Z)", page))
    for words, options in every(cli, ("agentserver",)):
        name = " ".join(words)
        assert name in sections, f"docs/commands.md has no section for {name!r}: ./run generate"
        section = sections[name]
        assert not {each for each in options if each not in section} - {"--log-level", "--log-format"}


def test_the_table_of_readme_has_every_verb():
    table = (ROOT / "README.md").read_text("utf-8").partition("## Commands")[2].partition("\n## ")[0]
    named = re.findall(r"`(?:agentserver )?(\w+)[^`]*`", "".join(re.findall(r"(?m)^\|([^|]*)\|", table)))
    missing = [verb for verb in VERBS if verb not in named]
    assert not missing, f"the table under Commands of README.md lacks {missing}"


def test_no_page_waits_for_the_site_to_fill_it_in():
    """The exception is the page of the API, whose docstrings a reader finds in the code."""
    stubs = {
        page.name for page in PAGES if re.search(r"(?m)^(::: |<!-- \w+: made from)", page.read_text("utf-8"))
    }
    assert stubs <= {"api.md"}


def test_the_glossary_has_each_word_once_and_in_order():
    rows = (ROOT / "docs" / "glossary.md").read_text("utf-8").partition("|---|---|\n")[2].splitlines()
    words = [row.split("|")[1].strip().lower() for row in rows]
    assert words == sorted(set(words))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_link_leads_to_a_file_and_a_heading(page):
    text = re.sub(r"`[^`\n]*`", "", page.read_text("utf-8"))
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)", text):
        there = (page.parent / target).resolve() if target else page
        assert there.exists(), f"{page}: {target}"
        if anchor:
            heads = re.findall(r"(?m)^#+ (.*)$", there.read_text("utf-8"))
            assert anchor in {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


LINKED_TEST = r"\[`(\w+)`\]\(\.\./(tests/(?:\w+/)*\1\.py)\) `(\w+)` \|$"
"""A link to a test at the end of a row: the name of its file, its path and its name."""


def test_each_promise_of_the_threat_model_is_held_by_a_test():
    page = ROOT / "docs" / "threat-model.md"
    text = page.read_text("utf-8")
    held = [(path, name) for _, path, name in re.findall(LINKED_TEST, text, re.MULTILINE)]
    promises = text.partition("## Promises")[2].partition("\n## ")[0]
    assert len(held) == promises.count("\n|") - 2
    for path, name in held:
        assert f"def {name}(" in (ROOT / path).read_text("utf-8"), f"{path}: {name}"


def test_each_row_of_hardening_is_held_by_a_test_and_every_risk_has_a_row():
    page = (ROOT / "docs" / "hardening.md").read_text("utf-8")
    rows = [row for row in page.splitlines() if row.startswith("| ASI")]
    assert {row[2:7] for row in rows} == {f"ASI{number:02}" for number in range(1, 11)}
    for row in rows:
        ((_, path, name),) = re.findall(LINKED_TEST, row)
        assert f"def {name}(" in (ROOT / path).read_text("utf-8"), name


def test_the_examples_of_deployment_have_no_root_no_write_and_a_way_to_drain():
    folder = ROOT / "docs" / "deploy"
    service = yaml.safe_load((folder / "compose.yaml").read_text("utf-8"))["services"]["desk"]
    assert (service["read_only"], service["user"], service["cap_drop"]) == (True, "10001:10001", ["ALL"])
    assert "ports" not in service  # only the proxy is reached
    kinds = {
        each["kind"]: each for each in yaml.safe_load_all((folder / "kubernetes.yaml").read_text("utf-8"))
    }
    pod = kinds["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert all("value" not in each for each in container["env"])  # secrets are named, never written
    assert {"NetworkPolicy", "PodDisruptionBudget", "Service", "ServiceAccount"} < kinds.keys()


def find_faults(manifests):
    """The faults of manifests by the strict schema of Kubernetes 1.37, as kubernetes-validate 1.37.0 has it, cut to these kinds."""
    path = ROOT / "tests" / "fixtures" / "deploy" / "kubernetes-1.37.json"
    known = json.loads(path.read_text("utf-8"))["$defs"]
    for each in manifests:
        (name,) = [name for name in known if name.rpartition(".")[2] == each["kind"]]
        validator = Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": known})
        yield from (f"{each['kind']}: {error.json_path}" for error in validator.iter_errors(each))


def test_the_manifests_meet_the_schema_of_kubernetes():
    path = ROOT / "docs" / "deploy" / "kubernetes.yaml"
    manifests = list(yaml.safe_load_all(path.read_text("utf-8")))
    assert list(find_faults(manifests)) == []
    (deployment,) = [each for each in manifests if each["kind"] == "Deployment"]
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    container["readinesProbe"] = container.pop("readinessProbe")  # the schema notices a misspelt key
    assert list(find_faults(manifests)) == ["Deployment: $.spec.template.spec.containers[0]"]


def test_the_compose_file_meets_the_strict_schema_of_compose():
    """The schema is that of docker-compose 1.29.2, the last one on the package index; it allows no unknown key."""
    path = ROOT / "tests" / "fixtures" / "deploy" / "compose-1.29.2.json"
    validator = Draft201909Validator(json.loads(path.read_text("utf-8")))
    written = yaml.safe_load((ROOT / "docs" / "deploy" / "compose.yaml").read_text("utf-8"))
    assert [error.json_path for error in validator.iter_errors(written)] == []
    desk = written["services"]["desk"]
    desk["readonly"] = desk.pop("read_only")  # the schema notices a misspelt key
    assert [error.json_path for error in validator.iter_errors(written)] == ["$.services.desk"]


def test_each_clause_of_the_guarantee_is_held_by_a_test():
    page = (ROOT / "docs" / "provenance" / "guarantee.md").read_text("utf-8")
    held = re.findall(r"\]\(\.\./\.\./(tests/[^)]+)\) `(\w+)`", page)
    clauses = [
        row
        for row in page.splitlines()
        if row.startswith("| ") and not row.startswith(("| clause", "| assum"))
    ]
    assert len(clauses) > 30
    assert [row for row in clauses if "](../../tests/" not in row and not row.endswith("| - |")] == []
    for path, name in held:
        assert f"def {name}(" in (ROOT / path).read_text("utf-8"), f"{path}: {name}"


def test_the_architecture_names_files_and_functions_that_exist():
    """A path is in backticks; its names follow in backticks, or with their class anywhere."""
    page = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    named = re.findall(r"`((?:agentserver|tests|schemas|benchmarks)/[\w/.]*)`(?:\s+`([\w.]+)`)?", page)
    assert len(named) > 50
    assert [path for path, _ in named if not (ROOT / path).exists()] == []
    defines = {path: defined_names(ROOT / path) for path, _ in named if path.endswith(".py")}
    assert [f"{path} {name}" for path, name in named if name and name not in defines[path]] == []
    methods = re.findall(r"`([A-Z]\w+\.\w+)`", page)
    assert set(methods) <= set().union(*defines.values())


def defined_names(path):
    return names_of(ast.parse(path.read_text("utf-8")))


def names_of(tree):
    """The names that a module or a class defines, those of methods with their class."""
    names = set()
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
            if isinstance(node, ast.ClassDef):
                names |= {f"{node.name}.{inner}" for inner in names_of(node)}
    return names
