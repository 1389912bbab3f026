"""The rules of seed 004 for one invariant, followed to the letter: everything in
one process, one import, json.loads, and Python's own comparison.

    reference_adapter.py TREE CASE

CASE is a JSON file with kind, entry, min, max and rows (the blob's text). The
exit status is 0 when the invariant holds.
"""

import importlib
import json
import sys


def within(fn, rows, low, high):
    for row in rows:
        if not low <= fn(**row) <= high:
            return False
    return True


def same_twice(fn, rows):
    for row in rows:
        first, second = fn(**row), fn(**row)
        if not first == second:
            return False
    return True


def as_listed(fn, rows):
    for row in rows:
        if not fn(*row["args"]) == row["expected"]:
            return False
    return True


def holds(case):
    module, name = case["entry"].split(":")
    fn = getattr(importlib.import_module(module), name)
    rows = json.loads(case["rows"])
    if case["kind"] == "bound":
        return within(fn, rows, case["min"], case["max"])
    if case["kind"] == "idempotent":
        return same_twice(fn, rows)
    if case["kind"] == "exact_table":
        return as_listed(fn, rows)
    return False


def main(tree, path):
    with open(path, encoding="utf-8") as f:
        case = json.load(f)
    sys.path.insert(0, tree)
    return 0 if holds(case) else 1


if __name__ == "__main__":
    try:
        status = main(*sys.argv[1:])
    except BaseException as error:  # as a test runner has it: no exception is a pass
        print(type(error).__name__, error, file=sys.stderr)
        status = 1
    # A module that ends the process by itself never gets here.
    print("judged", status)
    sys.exit(status)
