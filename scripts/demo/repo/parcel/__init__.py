"""What sending a parcel costs."""

from parcel.price import quote

__all__ = ["quote"]
