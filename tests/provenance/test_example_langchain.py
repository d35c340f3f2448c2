from __future__ import annotations

from pathlib import Path
from runpy import run_path

import pytest

pytest.importorskip("langchain")


def test_audit_prints_the_trace_and_enforce_blocks_with_the_chain(capsys: pytest.CaptureFixture[str]) -> None:
    run_path(str(Path(__file__).parents[2] / "examples" / "sleuth_langchain.py"), run_name="__main__")
    audit, enforce = capsys.readouterr().out.split("--- enforce ---")
    assert "mails that went out: ['mark.black-2134@gmail.com']; model calls: 4" in audit
    assert "Lineage: search_emails" in audit
    assert "mails that went out: []" in enforce
    assert "BLOCKED: send_email() called with tainted inputs" not in enforce
    assert "BLOCKED: search_emails() called with tainted inputs" in enforce, (
        "nothing is declared: it may be a way out"
    )
    assert "answer: BLOCKED" in enforce


def test_watching_adds_no_model_call() -> None:
    example = run_path(str(Path(__file__).parents[2] / "examples" / "sleuth_langchain.py"))
    from agentserver.provenance import Sleuth

    agent, bare = example["build"]()
    agent.invoke({"messages": [("user", example["QUERY"])]})
    agent, watched = example["build"]()
    Sleuth(agent=agent, mode="audit").run(example["QUERY"])
    assert bare.calls == watched.calls == 4
