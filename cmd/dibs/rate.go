package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/wire"
)

// rateFlag is the value of a flag: a rate without its burst, such as 100/min or 5/90s.
type rateFlag dibs.Rate

// periods are the words for the length of a rate's period, besides durations such as 90s. The
// first word is the one that is shown.
var periods = []struct {
	words  string
	length time.Duration
}{
	{"s sec second", time.Second},
	{"min m minute", time.Minute},
	{"h hour", time.Hour},
	{"day d", day},
}

func (f *rateFlag) Set(s string) error {
	count, period, found := strings.Cut(s, "/")
	n, err := strconv.Atoi(strings.TrimSpace(count))
	if !found && err == nil && n == 0 {
		*f = rateFlag{}
		return nil
	}
	if err != nil || !found {
		return fmt.Errorf("must be a number of jobs per time, such as 100/min, 5/s or 10/90s, or 0 for no limit")
	}
	period = strings.TrimSpace(period)
	for _, p := range periods {
		for _, word := range strings.Fields(p.words) {
			if period == word {
				*f = rateFlag{N: n, Per: p.length}
				return nil
			}
		}
	}
	length, err := wire.ParseDuration(period)
	*f = rateFlag{N: n, Per: length}
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
	text := strconv.Itoa(r.N) + "/" + periodText(r.Per)
	if r.Burst > 0 {
		text += fmt.Sprintf(", burst %d", r.Burst)
	}
	return text
}

func periodText(d time.Duration) string {
	for _, p := range periods {
		if d == p.length {
			word, _, _ := strings.Cut(p.words, " ")
			return word
		}
	}
	return wire.FormatDuration(d)
}

// heldText says how much longer a rate holds jobs up, or nothing if it does not.
func heldText(until time.Time) string {
	if wait := time.Until(until); wait > 0 {
		return "held by rate for " + roughly(wait)
	}
	return ""
}
