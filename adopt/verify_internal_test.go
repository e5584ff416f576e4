package adopt

import (
	"reflect"
	"testing"
)

// Open has every statement prepared only if all of them are listed.
func TestAllStatementsAreListed(t *testing.T) {
	s := &statements{}
	v := reflect.ValueOf(s).Elem()
	if got := len(s.all()); got != 0 {
		t.Errorf("%d statements of none", got)
	}
	one := &statement{}
	full := statements{ // does not compile when there is another: list it in all, too
		one, one, one, one, one, one, one, one, one, one, one, one,
		one, one, one, one, one, one, one, one, one, one, one, one,
	}
	if got := len(full.all()); got != v.NumField() {
		t.Errorf("all lists %d of %d statements", got, v.NumField())
	}
}
