"""The rules of seed 004 for an invariant, followed to the letter: everything in
one process, one import, json.loads, and Python's own comparison.

    reference_adapter.py TREE CASES RESULTS

CASES is a JSON file, a list of objects with kind, entry, min, max and rows (the
blob's text). Each is judged in a process of its own; RESULTS is written: a list
that says of each whether it holds.
"""

import importlib
import json
import os
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


def judge(case, said):
    """Judges a case in this process and says so; a module that ends it says nothing."""
    try:
        holding = holds(case)
    except BaseException:  # as a test runner has it: no exception is a pass
        holding = False
    os.write(said, b"y" if holding else b"n")
    os._exit(0)


def apart(case):
    ours, said = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ours)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        judge(case, said)
    os.close(said)
    word = os.read(ours, 1)
    os.close(ours)
    os.waitpid(child, 0)
    return word == b"y"


def main(tree, cases, results):
    sys.path.insert(0, tree)
    with open(cases, encoding="utf-8") as f:
        cases = json.load(f)
    with open(results, "w", encoding="utf-8") as f:
        json.dump([apart(case) for case in cases], f)


if __name__ == "__main__":
    main(*sys.argv[1:])
