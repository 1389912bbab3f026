"""A plain replay by seed 000's rules: everything in one process, nothing hidden.

usage: harness.py SEALED [PROPERTY-ID...]    with the judged tree on PYTHONPATH

Prints one JSON line; exits 0 when every digest matches, every property holds
for every fixture, and every freeze has an owner, a parent and time left.
"""
import datetime
import hashlib
import importlib.util
import json
import pathlib
import sys


def property_of(file):
    spec = importlib.util.spec_from_file_location("sealed_" + file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.holds


def replay(sealed, wanted):
    manifest = json.loads((sealed / "MANIFEST.json").read_bytes())
    bodies, drifted = {}, []
    for row in manifest["fixtures"]:
        bodies[row["id"]] = (sealed / row["path"]).read_bytes()
        if hashlib.sha256(bodies[row["id"]]).hexdigest() != row["sha256"]:
            drifted.append(row["id"])
    broken = []
    for row in manifest["properties"]:
        if wanted and row["id"] not in wanted:
            continue
        holds = property_of(sealed / row["path"])
        broken += [(row["id"], name) for name, body in bodies.items() if not holds(body)]
    now = datetime.datetime.now(datetime.timezone.utc)
    unpaid = []
    for entry in json.loads((sealed / "freeze.json").read_bytes())["entries"]:
        until = datetime.datetime.fromisoformat(entry["expires_utc"].replace("Z", "+00:00"))
        if until <= now or not entry["owner"] or not entry["parent_sha"]:
            unpaid.append(entry["test_id"])
    return not (drifted or broken or unpaid)


if __name__ == "__main__":
    ok = replay(pathlib.Path(sys.argv[1]), set(sys.argv[2:]))
    print(json.dumps({"merge_ok": ok}))
    sys.exit(0 if ok else 2)
