"""Every row of the price list costs what the list says."""

import json

from parcel import quote


def holds(fixture_bytes: bytes) -> bool:
    for row in json.loads(fixture_bytes):
        if quote(row["g"], row["zone"], row["express"]) != row["cents"]:
            return False
    return True
