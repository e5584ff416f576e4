package ticks

import (
	"fmt"
	"strings"
)

// cronFields are the fields of cron in their order, with what is allowed in them. A spec of five
// has no second.
var cronFields = []struct{ name, allowed string }{
	{"second", "0 to 59"},
	{"minute", "0 to 59"},
	{"hour", "0 to 23"},
	{"day of month", "1 to 31, L, L-3, 15W or LW"},
	{"month", "1 to 12, or jan to dec"},
	{"day of week", "0 to 7, where 0 and 7 are Sunday, sun to sat, fri#2 or fri#L"},
}

// mistake says what is wrong with a spec that the parser has refused.
func mistake(spec string) error {
	if strings.HasPrefix(spec, "@") {
		return invalid("spec", "%.40q is not known; there are @hourly, @daily, @weekly, @monthly, @yearly, and intervals such as \"every 90s\"", spec)
	}
	given := strings.Fields(spec)
	fields := cronFields[max(len(cronFields)-len(given), 0):]
	if n := len(given); n < 5 || n > 6 {
		return invalid("spec", "%.100q has %s; cron has five (minute, hour, day of month, month, day of week), or six with the second first; an interval is written \"every 90s\"", spec, fieldCount(n))
	}
	for i, f := range fields {
		alone := strings.Fields("* * * * * *")[:len(given)]
		alone[i] = shortNames(given[i])
		if _, err := parser.Parse(strings.Join(alone, " ")); err != nil {
			return invalid("spec", "the %s %.40q is not understood in %.100q; allowed are %s, also as a list (a,b), a range (a-b), or with a step (*/n)", f.name, given[i], spec, f.allowed)
		}
	}
	return invalid("spec", "%.100q is not understood", spec)
}

func fieldCount(n int) string {
	if n == 1 {
		return "1 field"
	}
	return fmt.Sprint(n, " fields")
}
