from decimal import ROUND_HALF_EVEN, Decimal

STEPS = [(500, 390), (2_000, 590), (10_000, 990), (31_500, 1_790)]


def zone_of(postcode):
    return 1 if postcode[:1] in "0123" else 2 if postcode[:1] in "456" else 3


def price(parcel):
    for grams, cents in STEPS:
        if parcel.grams <= grams:
            break
    else:
        raise ValueError("too heavy")
    factor = {1: Decimal("1"), 2: Decimal("1.15"), 3: Decimal("1.35")}[zone_of(parcel.postcode)]
    whole = (cents * factor).quantize(Decimal(1), rounding=ROUND_HALF_EVEN)
    return int(whole) + (150 if parcel.fragile else 0)
