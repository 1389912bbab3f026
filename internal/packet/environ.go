package packet

import (
	"cmp"
	"strconv"
)

// tier in words; records from before there were any have its number alone.
func (e Environment) tier() string { return cmp.Or(e.Sandbox, strconv.Itoa(e.Tier)) }
