"""A plain adapter by seed 004's rules: everything in one process, nothing hidden.

usage: adapter.py TREE [ID...]    the tree has oracles/ and the judged code

Exits 0 when every row of the invariants holds.
"""
import hashlib
import importlib
import json
import pathlib
import sys
import tomllib


def rows_of(tree, wanted):
    for file in sorted((tree / "oracles").glob("*.toml")):
        for row in tomllib.loads(file.read_text())["invariant"]:
            if not wanted or row["id"] in wanted:
                yield row


def holds(tree, row):
    raw = (tree / row["blob"]).read_bytes()
    if hashlib.sha256(raw).hexdigest() != row["blob_sha256"]:
        return False
    module, _, name = row["entry"].partition(":")
    entry = getattr(importlib.import_module(module), name)
    samples = json.loads(raw)
    if row["kind"] == "bound":
        return all(row["min"] <= entry(**s) <= row["max"] for s in samples)
    if row["kind"] == "idempotent":
        return all(entry(**s) == entry(**s) for s in samples)
    return all(entry(*s["args"]) == s["expected"] for s in samples)


if __name__ == "__main__":
    tree = pathlib.Path(sys.argv[1])
    sys.path.insert(0, str(tree))
    sys.exit(0 if all([holds(tree, row) for row in rows_of(tree, set(sys.argv[2:]))]) else 2)
