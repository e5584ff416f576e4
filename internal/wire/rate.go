package wire

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
)

// periods are the words for the length of a rate's period, besides durations such as 90s. The
// first word is the one that is shown.
var periods = []struct {
	words  string
	length time.Duration
}{
	{"s sec second", time.Second},
	{"min m minute", time.Minute},
	{"h hour", time.Hour},
	{"day d", 24 * time.Hour},
}

// ParseRate reads a rate without its burst, such as 100/min, 10/90s, or 0 for none.
func ParseRate(s string) (dibs.Rate, error) {
	count, period, found := strings.Cut(s, "/")
	n, err := strconv.Atoi(strings.TrimSpace(count))
	if !found && err == nil && n == 0 {
		return dibs.Rate{}, nil
	}
	if err != nil || !found {
		return dibs.Rate{}, fmt.Errorf("must be a number of jobs per time, such as 100/min, 5/s or 10/90s, or 0 for no limit")
	}
	period = strings.TrimSpace(period)
	for _, p := range periods {
		for _, word := range strings.Fields(p.words) {
			if period == word {
				return dibs.Rate{N: n, Per: p.length}, nil
			}
		}
	}
	length, err := ParseDuration(period)
	return dibs.Rate{N: n, Per: length}, err
}

// FormatRate is a rate without its burst as ParseRate reads it.
func FormatRate(r dibs.Rate) string {
	if r.N == 0 {
		return "0"
	}
	return strconv.Itoa(r.N) + "/" + periodText(r.Per)
}

func periodText(d time.Duration) string {
	for _, p := range periods {
		if d == p.length {
			word, _, _ := strings.Cut(p.words, " ")
			return word
		}
	}
	return FormatDuration(d)
}
