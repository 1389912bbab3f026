package judge

import (
	"fmt"
	"strings"
	"testing"
)

// shop is an ordinary small package, in the kinds of code that people write:
// dataclasses, exceptions, a service with state, text functions.
var shop = files{
	"shop/__init__.py": `from .basket import Basket, read_basket, price
from .stock import Stock
from .words import tidy
`,
	"shop/amount.py": `from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal


@dataclass(frozen=True, order=True)
class Amount:
    cents: int
    currency: str = "EUR"

    @classmethod
    def parse(cls, text, currency="EUR"):
        return cls(int((Decimal(text) * 100).quantize(Decimal(1), rounding=ROUND_HALF_EVEN)), currency)

    def __add__(self, other):
        if self.currency != other.currency:
            raise ValueError("two currencies")
        return Amount(self.cents + other.cents, self.currency)

    def times(self, n):
        return Amount(self.cents * n, self.currency)

    def minus_percent(self, p):
        return Amount(self.cents - self.cents * p // 100, self.currency)
`,
	"shop/basket.py": `import json
from dataclasses import dataclass, field

from .amount import Amount


class BasketError(ValueError):
    pass


@dataclass
class Basket:
    ident: str
    rows: list = field(default_factory=list)
    rebate: int = 0


def read_basket(raw):
    try:
        doc = json.loads(raw)
    except ValueError as e:
        raise BasketError(f"not JSON: {e}") from e
    if not doc.get("id"):
        raise BasketError("no id")
    rows = []
    for row in doc["rows"]:
        if row["count"] < 0:
            raise BasketError("negative count")
        rows.append((row["sku"], row["count"], Amount.parse(row["price"])))
    return Basket(doc["id"], rows, doc.get("rebate", 0))


def price(basket):
    out = Amount(0)
    for _, count, each in basket.rows:
        out = out + each.times(count)
    return out.minus_percent(basket.rebate)
`,
	"shop/stock.py": `from collections import defaultdict


class Stock:
    def __init__(self):
        self.seen, self.left = {}, defaultdict(int)

    def take(self, basket):
        if basket.ident in self.seen:
            return self.seen[basket.ident]
        for sku, count, _ in basket.rows:
            self.left[sku] -= count
        self.seen[basket.ident] = dict(self.left)
        return self.seen[basket.ident]
`,
	"shop/words.py": `import re
import unicodedata


def tidy(text):
    flat = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", flat.lower()).strip("-")
`,
}

// kinds of property over shop, each with a bug that it must see.
var kinds = []struct {
	name     string
	property string
	bug      [3]string // file, old, new
}{
	{"an expected value", `import json
from shop import read_basket, price

def holds(raw):
    return price(read_basket(raw)).cents == json.loads(raw)["expect"]
`, [3]string{"shop/amount.py", "self.cents * n", "self.cents * n + 1"}},
	{"the same twice", `from shop import Stock, read_basket

def holds(raw):
    stock, basket = Stock(), read_basket(raw)
    return all(stock.take(basket) == stock.take(basket) for _ in range(2))
`, [3]string{"shop/stock.py", "in self.seen", "in ()"}},
	{"an error by its class", `import json
from shop.basket import BasketError, read_basket

def holds(raw):
    doc = json.loads(raw)
    doc["id"] = ""
    try:
        read_basket(json.dumps(doc))
    except BasketError:
        return True
    return False
`, [3]string{"shop/basket.py", `if not doc.get("id")`, `if "id" not in doc`}},
	{"equal dataclasses", `import json
from shop import read_basket, price

def holds(raw):
    doc = json.loads(raw)
    doc["rows"] = doc["rows"][2:] + doc["rows"][:2]
    return price(read_basket(json.dumps(doc))) == price(read_basket(raw))
`, [3]string{"shop/basket.py", "out = out + each.times(count)", "out = each.times(count)"}},
	{"a text function", `from shop import tidy

def holds(raw):
    s = tidy(raw.decode())
    return tidy(s) == s and "--" not in s
`, [3]string{"shop/words.py", "]+", "]"}},
	{"a monotone function", `import json
from shop import read_basket, price

def holds(raw):
    doc = json.loads(raw)
    sums = []
    for p in (0, 30, 100):
        doc["rebate"] = p
        sums.append(price(read_basket(json.dumps(doc))).cents)
    return sums[0] >= sums[1] >= sums[2] == 0
`, [3]string{"shop/amount.py", "* p // 100", "* p // 101"}},
	{"an error of arithmetic", `from shop.amount import Amount

def holds(raw):
    try:
        Amount(3) + Amount(1, "SEK")
    except ValueError:
        return True
    return False
`, [3]string{"shop/amount.py", "if self.currency != other.currency", "if False"}},
	{"equal and apart", `from shop import read_basket

def holds(raw):
    a, b = read_basket(raw), read_basket(raw)
    return a == b and a.rows is not b.rows
`, [3]string{"shop/basket.py", `return Basket(doc["id"]`, `return Basket(__import__("os").urandom(4).hex()`}},
	{"half an input", `from shop.basket import BasketError, read_basket

def holds(raw):
    try:
        read_basket(raw[: len(raw) // 2])
    except BasketError:
        return True
    return False
`, [3]string{"shop/basket.py", "except ValueError as e:\n        raise BasketError(f\"not JSON: {e}\") from e", "except ValueError as e:\n        doc = {'id': 'x', 'rows': []}"}},
	{"state by attribute", `import json
from shop import Stock, read_basket

def holds(raw):
    stock, basket = Stock(), read_basket(raw)
    stock.take(basket)
    want = {}
    for row in json.loads(raw)["rows"]:
        want[row["sku"]] = want.get(row["sku"], 0) - row["count"]
    return dict(stock.left) == want
`, [3]string{"shop/stock.py", "self.left[sku] -= count", "self.left[sku] = -count"}},
}

func baskets(n int) files {
	out := files{}
	for i := range n {
		var rows []string
		cents := 0
		for k := range 8 {
			count, each := 1+(i+k)%4, 199+37*k+i
			cents += count * each
			rows = append(rows, fmt.Sprintf(`{"sku": "s%d", "count": %d, "price": "%d.%02d", "name": "Crème  brûlée %d"}`, k%5, count, each/100, each%100, k))
		}
		rebate := []int{0, 5, 10}[i%3]
		out[fmt.Sprintf("basket_%d", i)] = fmt.Sprintf(`{"id": "b%d", "rows": [%s], "rebate": %d, "expect": %d}`,
			i, strings.Join(rows, ", "), rebate, cents-cents*rebate/100)
	}
	return out
}

func with(tree files, bug [3]string) files {
	out := files{}
	for name, text := range tree {
		out[name] = text
	}
	if !strings.Contains(out[bug[0]], bug[1]) {
		panic("no place for the bug: " + bug[1])
	}
	out[bug[0]] = strings.Replace(out[bug[0]], bug[1], bug[2], 1)
	return out
}

func TestTheTenKindsPassOnGoodCode(t *testing.T) {
	s := scene{tree: shop, properties: files{}, fixtures: baskets(5)}
	for i, k := range kinds {
		s.properties[fmt.Sprintf("p%02d", i)] = k.property
	}
	for _, pass := range []Pass{First(), Second()} {
		for id, r := range s.judge(t, pass) {
			if !r.OK || !r.Ran || r.Calls == 0 {
				t.Errorf("%s: %s", id, r.summary())
			}
		}
	}
}

func TestTheTenKindsSeeTheirBug(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			r := scene{tree: with(shop, k.bug), properties: files{"p": k.property}, fixtures: baskets(2)}.judge(t, First())["p"]
			if !r.Ran || r.OK || len(r.FailedFixtures) == 0 {
				t.Error(r.summary())
			}
		})
	}
}
