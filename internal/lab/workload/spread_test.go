package workload

import "testing"

func TestNumbersAreShort(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.5: "0.500", 0.01234: "0.012", 1.234: "1.23", 45.67: "45.7", 456.7: "457", 4567: "4567", 45_678: "45.7k", 456_789: "457k"} {
		if got := Short(v); got != want {
			t.Errorf("%v is written %s, want %s", v, got, want)
		}
	}
}

func TestSpreadOfRounds(t *testing.T) {
	if s := NewSpread([]float64{3, 1, 2}); s.Median != 2 || s.Min != 1 || s.Max != 3 {
		t.Error(s)
	}
	if s := NewSpread([]float64{4, 1, 2, 3}); s.Median != 2.5 {
		t.Error(s)
	}
}
