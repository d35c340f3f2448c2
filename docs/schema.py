"""Generates the JSON Schema with which editors complete and explain ``organism.yaml``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from agentserver.config.lineage import TrustingFile

PLACE: Final = Path(__file__).resolve().parent.parent / "schemas" / "organism.schema.json"


def texts() -> dict[Path, str]:
    """Return the schema, the same at each call."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **TrustingFile.model_json_schema(mode="validation"),
        "title": "agentserver organism",
    }
    for part in (schema, *schema["$defs"].values()):
        for name, value in part.get("properties", {}).items():
            value.setdefault("title", name.replace("_", " ").capitalize())  # pydantic gives a reference none
    return {PLACE: json.dumps(schema, indent=2, ensure_ascii=False, sort_keys=True) + "\n"}
