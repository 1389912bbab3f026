"""The kit's functions in Python; functions.md says what each must do."""
# What is slow to load is loaded where it is needed: each case is a process.
import os
import sys
import time

a_constant = 7
calls = {"count_calls": 0, "raise_on_second_call": 0}


def echo(x):
    return x


def add(a, b):
    return a + b


def subtract(a, b):
    return a - b


def by_keyword(*, minuend, subtrahend):
    return minuend - subtrahend


def append_to_list(items):
    items.append(1)
    return items


def append_by_keyword(*, items):
    return append_to_list(items)


def none():
    return None


def raise_error(message):
    raise ValueError(message)


def count_calls():
    calls["count_calls"] += 1
    return calls["count_calls"]


def raise_on_second_call():
    calls["raise_on_second_call"] += 1
    if calls["raise_on_second_call"] == 2:
        raise ValueError("the second call")
    return calls["raise_on_second_call"]


def stop():
    raise StopIteration(1)


def floats():
    return [0.1, -0.0, 1e308, 5e-324]


def not_finite():
    return [float("inf"), float("-inf"), float("nan")]


def nested():
    return {"a": [1, {"b": None}], "c": True}


def unicode():
    return "gr\u00fc\u00dfe \U0001f600 \0\x7f\u2028 \"\\/"


def deep(n):
    out = []
    for _ in range(n - 1):
        out = [out]
    return out


def cycle():
    out = []
    out.append(out)
    return out


def shared():
    one = [1]
    return [one, one]


def long_text(n):
    return "x" * n


def a_function():
    return echo


def print_noise(text):
    print(text)
    print(text, file=sys.stderr)
    return "quiet"


def print_much(n):
    sys.stdout.write("y" * n)
    sys.stdout.flush()
    return "quiet"


def read_input():
    return sys.stdin.read()


def child_writes():
    import subprocess

    subprocess.run(["/bin/sh", "-c", "printf x >&4; printf x >&3"], stderr=subprocess.DEVNULL, close_fds=False)
    return "done"


def child_stays():
    import subprocess

    subprocess.Popen(["/bin/sh", "-c", "sleep 2"], close_fds=False)
    return "done"


def file_exists(path):
    return os.path.isfile(path)


def leave():
    os._exit(3)


def slow(seconds):
    time.sleep(seconds)
    return "slept"


def big_int():
    return 2**70


def some_bytes():
    return b"\x00\xff"


def mutable_bytes():
    return bytearray(b"\x00\xff")


def a_tuple():
    return (1, (), [2])


def a_set():
    return {1, "a"}


def a_decimal():
    import decimal

    return decimal.Decimal("1.50")


def a_fraction():
    import fractions

    return fractions.Fraction(1, 3)


def a_date():
    import datetime

    return datetime.date(2024, 2, 29)


def a_moment():
    import datetime

    return datetime.datetime(2024, 2, 29, 23, 59, tzinfo=datetime.timezone(datetime.timedelta(hours=1)))


def a_record():
    import kit_records

    return kit_records.Parcel("DE", 30)


def lone_surrogate():
    return "\ud800"


def an_object():
    return object()


def iterator(n):
    import itertools

    return (i for i in (itertools.count() if n < 0 else range(n)))


def nested_iterator(n):
    return {"items": [iterator(n)]}


class Box:
    @staticmethod
    def label(text):
        return "box " + text


async def later(x):
    import asyncio

    await asyncio.sleep(0)
    return x


def random_number():
    import random

    return random.random()
