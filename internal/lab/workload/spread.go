package workload

import (
	"fmt"
	"math"
	"slices"
)

// Spread summarizes one figure over all rounds.
type Spread struct {
	Median float64   `json:"median"`
	Min    float64   `json:"min"`
	Max    float64   `json:"max"`
	All    []float64 `json:"all"`
}

// NewSpread summarizes at least one value.
func NewSpread(all []float64) Spread {
	sorted := slices.Sorted(slices.Values(all))
	middle := len(sorted) / 2
	median := sorted[middle]
	if len(sorted)%2 == 0 {
		median = (sorted[middle-1] + median) / 2
	}
	return Spread{median, sorted[0], sorted[len(sorted)-1], all}
}

// SpreadOf returns the spread of a row's figure, or false if no run has the figure.
func SpreadOf(row Row, runs []Measured) (Spread, bool) {
	var all []float64
	for _, m := range runs {
		if v, ok := m.Figures[row.Key]; ok {
			all = append(all, v)
		}
	}
	if len(all) == 0 {
		return Spread{}, false
	}
	return NewSpread(all), true
}

// Short formats a number with three significant digits.
func Short(v float64) string {
	switch {
	case v >= 1e5:
		return fmt.Sprintf("%.0fk", v/1e3)
	case v >= 1e4:
		return fmt.Sprintf("%.1fk", v/1e3)
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v == 0:
		return "0"
	}
	digits := 2 - int(math.Floor(math.Log10(math.Abs(v))))
	return fmt.Sprintf("%.*f", min(digits, 3), v)
}
