"""Attacks of a walled handler on its write limit, and on the task that enforces limits."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from tests.hostile.harness import Attack

if TYPE_CHECKING:
    from tests.hostile.harness import Target

PROJECT = Path(__file__).resolve().parents[1] / "worker" / "project"
ACTS = ("many_files", "unlinked", "mapped", "unreadable", "passed", "nested")


def with_walls(home: Path) -> None:
    """Write the organism of the hostile handlers."""
    shutil.copytree(PROJECT, home, dirs_exist_ok=True)
    path = home / "organism.yaml"
    text = path.read_text("utf-8").replace("name: walled\n", "name: walled\nhttp: {bind: '127.0.0.1:0'}\n", 1)
    path.write_text(text, "utf-8")


async def keep_more(server: Target) -> str:
    """Keep 40 MB under ``disk: 12MB`` in five ways, then break what walks the folder."""
    met = []
    async with server.client() as client:
        opened = await client.post("/v1/conversations")
        path = f"/v1/conversations/{opened.json()['conversation']}/messages"
        for act in ACTS:
            answer = await client.post(
                f"{path}?to=walled&payload=Try&wait=50", json={"act": act, "about": ""}
            )
            assert "DONE" not in answer.text, (act, answer.text)
            told = (
                "no space"
                if "No space left" in answer.text
                else "ended"
                if "internal" in answer.text
                else "?"
            )
            assert told != "?", (act, answer.text)
            met.append(f"{act}: {told}")
        answer = await client.post(
            f"{path}?to=walled&payload=Try&wait=50", json={"act": "hello", "about": "you"}
        )
        assert "hello you" in answer.text, answer.text
    return ", ".join(met)


ATTACKS = (
    Attack(
        "wall: more than the disk limit", keep_more, with_walls, memory=40_000_000, env={"REGION": "north"}
    ),
)
