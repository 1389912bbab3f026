"""Prices in cents: a base for the zone, and a step for each begun 500 g."""

BASE = {"town": 390, "country": 550, "abroad": 1290}
STEP_G = 500
STEP_CENTS = 45
HEAVIEST_G = 30_000


def quote(weight_g, zone, express=False):
    if not 0 < weight_g <= HEAVIEST_G:
        raise ValueError("no parcel weighs that")
    steps = -(-weight_g // STEP_G)
    cents = BASE[zone] + steps * STEP_CENTS
    if express:
        cents = cents + cents // 2
    return cents
