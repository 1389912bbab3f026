"""A class whose instances are records."""
from dataclasses import dataclass


@dataclass(frozen=True)
class Parcel:
    country: str
    grams: int
