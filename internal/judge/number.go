package judge

import (
	"math"
	"math/big"

	"github.com/sealgate/sealgate/internal/candidate"
)

// number is a number exactly as it is, of whatever type: num/den times ten to the
// power of exp, or an infinity, or NaN.
type number struct {
	nan bool
	inf int // -1, 1
	num *big.Int
	den *big.Int // nil is 1
	exp int64
}

// numberOf takes a value as a number; ok is false when it is none. A complex
// number is one when it has no imaginary part, as Python's == has it.
func numberOf(v candidate.Value) (n number, ok bool) {
	switch v.Type {
	case candidate.Bool, candidate.Int:
		return number{num: v.BigInt()}, true
	case candidate.Float:
		return floatNumber(v.Real), true
	case candidate.Complex:
		return floatNumber(v.Real), v.Imag == 0
	case candidate.Fraction:
		return number{num: v.Items[0].BigInt(), den: v.Items[1].BigInt()}, true
	case candidate.Decimal:
		d, err := candidate.ParseDecimal(v.Text)
		if err != nil {
			return number{}, false
		}
		return number{nan: d.NaN, inf: d.Inf, num: d.Coefficient, exp: d.Exponent}, true
	default:
		return number{}, false
	}
}

func floatNumber(f float64) number {
	switch {
	case math.IsNaN(f):
		return number{nan: true}
	case math.IsInf(f, 1):
		return number{inf: 1}
	case math.IsInf(f, -1):
		return number{inf: -1}
	}
	r := new(big.Rat).SetFloat64(f)
	return number{num: r.Num(), den: r.Denom()}
}

func (n number) finite() bool { return !n.nan && n.inf == 0 }

// size estimates the decimal logarithm of a finite number that is not zero, less
// low, to within one.
func (n number) size(low int64) float64 {
	const digits = 0.30102999566398120
	s := float64(n.num.BitLen())*digits + float64(n.exp-low)
	if n.den != nil {
		s -= float64(n.den.BitLen()) * digits
	}
	return s
}

// bits is about how much room an exact calculation with the number takes.
func (n number) bits() int64 {
	bits := int64(n.num.BitLen()) + 4*max(n.exp, -n.exp)
	if n.den != nil {
		bits += int64(n.den.BitLen())
	}
	return bits
}

// modest is the size up to which numbers are calculated with; beyond it they are
// only compared.
const modest = 20_000 // bits

func (n number) modest() bool { return n.finite() && max(n.exp, -n.exp) < modest && n.bits() < modest }

// cmp compares two numbers that are not NaN. It is false when the comparison would
// cost more than is left.
func (c *comparison) cmp(a, b number) (sign int, ok bool) {
	if a.inf != 0 || b.inf != 0 {
		return a.inf - b.inf, true
	}
	sa, sb := a.num.Sign(), b.num.Sign()
	if sa != sb || sa == 0 {
		return sa - sb, true
	}
	// Numbers of clearly different size are not written out: an exponent may be huge.
	low := min(a.exp, b.exp)
	if d := a.size(low) - b.size(low); d > 3 || d < -3 {
		if (d > 0) == (sa > 0) {
			return 1, true
		}
		return -1, true
	}
	if !c.calculate(int64(a.num.BitLen()) + int64(b.num.BitLen()) + 4*(a.exp-low+b.exp-low) + denBits(a) + denBits(b)) {
		return 0, false
	}
	return scaled(a, b, low).Cmp(scaled(b, a, low)), true
}

func denBits(n number) int64 {
	if n.den == nil {
		return 0
	}
	return int64(n.den.BitLen())
}

// scaled is a's numerator over the denominator that it has in common with b.
func scaled(a, b number, low int64) *big.Int {
	out := new(big.Int).Set(a.num)
	if a.exp > low {
		out.Mul(out, power(a.exp-low))
	}
	if b.den != nil {
		out.Mul(out, b.den)
	}
	return out
}

func power(n int64) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(n), nil) }

// rat is a modest number as a fraction.
func (n number) rat() *big.Rat {
	num, den := new(big.Int).Set(n.num), big.NewInt(1)
	if n.den != nil {
		den.Set(n.den)
	}
	switch {
	case n.exp > 0:
		num.Mul(num, power(n.exp))
	case n.exp < 0:
		den.Mul(den, power(-n.exp))
	}
	return new(big.Rat).SetFrac(num, den)
}

// close says whether two finite numbers are within the tolerances: as
// math.isclose has it, |a-b| <= max(rel * max(|a|, |b|), abs), calculated exactly.
func (c *comparison) close(a, b number) bool {
	if !a.modest() || !b.modest() || !c.calculate(a.bits()+b.bits()) {
		return false
	}
	x, y := a.rat(), b.rat()
	diff := new(big.Rat).Sub(x, y)
	diff.Abs(diff)
	if diff.Cmp(c.abs) <= 0 {
		return true
	}
	x.Abs(x)
	y.Abs(y)
	if x.Cmp(y) < 0 {
		x = y
	}
	return diff.Cmp(x.Mul(x, c.rel)) <= 0
}
