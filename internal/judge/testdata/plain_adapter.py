"""Judges every row of one claim in this process, as an adapter run once per
invariant does: plain_adapter.py TREE ID, with the claims in TREE/claims.json."""

import hashlib
import importlib
import json
import sys
from pathlib import Path

tree, wanted = Path(sys.argv[1]), sys.argv[2]
claim = json.loads((tree / "claims.json").read_text())[wanted]
raw = (tree / claim["blob"]).read_bytes()
assert hashlib.sha256(raw).hexdigest() == claim["sha256"]
sys.path.insert(0, str(tree))
module, name = claim["entry"].split(":")
fn = getattr(importlib.import_module(module), name)
for row in json.loads(raw):
    if claim["kind"] == "bound":
        assert claim["min"] <= fn(**row) <= claim["max"], row
    elif claim["kind"] == "idempotent":
        assert fn(**row) == fn(**row), row
    elif claim["kind"] == "exact_table":
        assert fn(*row["args"]) == row["expected"], row
    else:
        raise SystemExit("unknown kind")
