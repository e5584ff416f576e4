package cmdline

import (
	"fmt"
	"strconv"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/wire"
)

// rateFlag is the value of a flag: a rate without its burst, such as 100/min or 5/90s.
type rateFlag dibs.Rate

func (f *rateFlag) Set(s string) error {
	r, err := wire.ParseRate(s)
	*f = rateFlag(r)
	return err
}

func (f *rateFlag) String() string {
	if f.N == 0 {
		return ""
	}
	return RateText(dibs.Rate(*f))
}

func (f *rateFlag) Type() string { return "rate" }

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
