package main

import (
	"fmt"

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
	return rateText(dibs.Rate(*f))
}

func (f *rateFlag) Type() string { return "rate" }

// rateText is a rate as --rate reads it, with its burst.
func rateText(r dibs.Rate) string {
	if r.N == 0 {
		return limit(0)
	}
	text := wire.FormatRate(r)
	if r.Burst > 0 {
		text += fmt.Sprintf(", burst %d", r.Burst)
	}
	return text
}
