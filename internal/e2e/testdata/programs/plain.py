"""Runs invariants as a harness of one's own would: no sandbox, no second pass.

plain.py ROOT...: each ROOT is a tree with one invariant, and has a process of
its own. Prints a JSON object a line: id, kind, options, the number of rows, and
which of them fail, counted from 1.
"""
import asyncio
import hashlib
import importlib
import inspect
import itertools
import json
import math
import os
import random
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

OPTIONS = ("strict", "sequence", "unordered", "abs_tol", "rel_tol", "seed", "repeat")


def items(value, wanted):
    """Sequences as lists; of an iterator as many items as are wanted."""
    if hasattr(value, "__next__"):
        value = list(itertools.islice(value, len(wanted)))
    if not isinstance(value, (list, tuple)):
        return value
    return [items(v, w) for v, w in itertools.zip_longest(value, wanted)]


def same(value, wanted, row):
    if row.get("sequence"):
        value = items(value, wanted)
    if row.get("unordered"):
        value, wanted = sorted(value), sorted(wanted)
    if row.get("strict") and type(value) is not type(wanted):
        return False
    if "abs_tol" in row or "rel_tol" in row:
        return math.isclose(value, wanted, abs_tol=row.get("abs_tol", 0), rel_tol=row.get("rel_tol", 0))
    return value == wanted


def call(entry, *args, **named):
    result = entry(*args, **named)
    return asyncio.run(result) if inspect.iscoroutine(result) else result


def load(text):
    module, name = text.split(":")
    entry = importlib.import_module(module)
    for part in name.split("."):
        entry = getattr(entry, part)
    return entry


def bound(row, sample):
    value = call(load(row["entry"]), **sample)
    return not isinstance(value, bool) and row["min"] <= value <= row["max"]


def idempotent(row, sample):
    entry = load(row["entry"])
    values = [json.dumps(call(entry, **sample)) for _ in range(row.get("repeat", 2))]
    return len(set(values)) == 1


def exact_table(row, sample):
    return same(call(load(row["entry"]), *sample["args"]), sample["expected"], row)


def executable(row, sample):
    argv = ["./" + row["entry"].removeprefix("exec:"), *sample["args"]]
    ended = subprocess.run(argv, input=sample.get("stdin", "").encode(), capture_output=True)
    expected = sample["expected"]
    wrong_text = "stdout" in expected and ended.stdout != expected["stdout"].encode()
    return ended.returncode == expected.get("exit", 0) and not wrong_text


def holds(row, sample):
    kinds = {"bound": bound, "idempotent": idempotent, "exact_table": exact_table}
    check = executable if row["entry"].startswith("exec:") else kinds[row["kind"]]
    if "seed" in row:
        random.seed(row["seed"])
    try:
        return check(row, sample)
    except Exception:
        return False


def judge(root):
    os.chdir(root)
    [file] = Path("oracles").glob("*.toml")
    [row] = tomllib.loads(file.read_text())["invariant"]
    raw = Path(row["blob"]).read_bytes()
    assert hashlib.sha256(raw).hexdigest() == row["blob_sha256"], row["blob"]
    samples = json.loads(raw)
    failed = [i for i, sample in enumerate(samples, start=1) if not holds(row, sample)]
    options = [option for option in OPTIONS if option in row]
    print(json.dumps({"id": row["id"], "kind": row["kind"], "entry": row["entry"], "options": options, "rows": len(samples), "failed": failed}))
    sys.stdout.flush()


def main():
    sys.path.insert(0, "")
    sys.dont_write_bytecode = True
    for root in sys.argv[1:]:
        child = os.fork()
        if not child:
            signal.alarm(60)
            judge(root)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status:
            sys.exit(f"{root}: status {status}")


main()
