package cmdline

import (
	"fmt"
	"strconv"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/wire"
)

// RateText is a rate as --rate reads it, with its burst.
func RateText(r dibs.Rate) string {
	if r.N == 0 {
		return Limit(0)
	}
	text := wire.FormatRate(r)
	if r.Burst > 0 {
		text += fmt.Sprintf(", burst %d", r.Burst)
	}
	return text
}

func Limit(n int) string {
	if n == 0 {
		return "no limit"
	}
	return strconv.Itoa(n)
}
