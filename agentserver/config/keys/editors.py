"""The JSON Schema by which editors complete and explain ``organism.yaml``.

Owns its one rendering. Refuses to add to what the models say.
"""

from __future__ import annotations

import json

from agentserver.config.lineage import TrustingFile


def editor_schema() -> str:
    """The JSON Schema as text, the same at each call: what ``schemas/organism.schema.json`` holds."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **TrustingFile.model_json_schema(mode="validation"),
        "title": "agentserver organism",
    }
    return json.dumps(schema, indent=2, ensure_ascii=False, sort_keys=True) + "\n"
