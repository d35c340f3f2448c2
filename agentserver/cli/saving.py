"""A recorded conversation as a regression test: the file, and the test that decides it again.

Owns where they are written and what the test says. The format of the file is for engines/portable.py.
"""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING

from agentserver.cli import project

if TYPE_CHECKING:
    from pathlib import Path

    import click

    from agentserver.config import Secrets
    from agentserver.core.recorded import Story

TEST = '''\
"""Decides a recorded conversation again. Written by agentserver replay --save."""

from __future__ import annotations

from pathlib import Path

from agentserver.testing import replayed

HERE = Path(__file__).parent


def test_{name}() -> None:
    replayed(HERE / {file}, HERE / {organism})
'''


def save(ctx: click.Context, story: Story, target: Path, organism: tuple[Path, Secrets]) -> None:
    """Write a conversation and, if there is none yet, its test. An existing file is never overwritten.

    Args:
        ctx: of the command, which ends when the conversation holds a secret or cannot be written.
        story: the conversation.
        target: the file; its folder is made.
        organism: the file of the organism that the test loads, and its secrets.
    """
    from agentserver.engines import portable
    from agentserver.engines.journal_care import broken_link

    path, secrets = organism
    if target.exists():
        project.refuse(ctx, f"{target}: exists already")
    if broken_link(story) is not None:
        project.refuse(ctx, "it is not what was written; nothing is saved")
    for version, text in portable.texts(story):
        if secrets.redact(text) != text:
            project.refuse(
                ctx,
                f"step {version} holds a value that the organism takes from the environment or a file, and whoever"
                " reads the file could read it; nothing is written. Record a conversation without it.",
            )
    name = re.sub(r"\W+", "_", target.stem).strip("_").lower() or "conversation"
    test = target.with_name(f"test_{name}.py")
    where = os.path.relpath(path.resolve(), target.parent.resolve()).replace(os.sep, "/")
    project.write(target, portable.dump(story).decode(), private=True)
    project.say(f"{target}: {len(story.steps)} steps; read it before you share it")
    if test.exists():
        project.say(f"{test}: exists already and is left as it is")
        return
    project.write(
        test, TEST.format(name=name, file=json.dumps(target.name), organism=json.dumps(where)), private=True
    )
    project.say(f"{test}: run it with pytest")
