"""A gram more never makes a parcel cheaper."""

import json

from parcel import quote


def holds(fixture_bytes: bytes) -> bool:
    for row in json.loads(fixture_bytes):
        lighter = quote(row["g"], row["zone"], row["express"])
        heavier = quote(row["g"] + 1, row["zone"], row["express"])
        if heavier < lighter:
            return False
    return True
