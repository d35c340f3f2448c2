"""Node and its packages, for tests of clients and servers that are written for it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest


def find_node(package: str, title: str) -> tuple[str, dict[str, str]]:
    """Find node and a package: in NODE_PATH, or installed globally. Skips the test without them."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip(f"NOT TRIED: {title} needs node and npm, which are not installed")
    places = (
        os.environ.get("NODE_PATH")
        or subprocess.run([npm, "root", "-g"], capture_output=True, text=True, check=True).stdout.strip()
    )
    if not any((Path(each) / package).is_dir() for each in places.split(os.pathsep)):
        pytest.skip(f"NOT TRIED: {title} is not installed (npm install -g {package})")
    return node, {**os.environ, "NODE_PATH": places}
