import json
from dataclasses import dataclass


class ParcelError(ValueError):
    pass


@dataclass(frozen=True)
class Parcel:
    number: str
    grams: int
    postcode: str
    fragile: bool = False


def parse(raw):
    try:
        doc = json.loads(raw)
    except ValueError as e:
        raise ParcelError("not a JSON document") from e
    if not doc.get("number"):
        raise ParcelError("a parcel needs a number")
    if doc["grams"] <= 0:
        raise ParcelError("a parcel weighs something")
    return Parcel(doc["number"], doc["grams"], doc["postcode"], bool(doc.get("fragile")))
