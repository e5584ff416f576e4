package adopt

import (
	"maps"
	"reflect"
	"slices"
	"testing"
)

// Open has every statement prepared, and dibs adopt sql prints it, only if it is listed.
func TestAllStatementsAreListed(t *testing.T) {
	s := &statements{}
	v := reflect.ValueOf(s).Elem()
	for i := range v.NumField() {
		field := reflect.NewAt(v.Field(i).Type(), v.Field(i).Addr().UnsafePointer()).Elem()
		before := len(s.all())
		field.Set(reflect.ValueOf(&statement{}))
		if len(s.all()) != before+1 {
			t.Errorf("all lacks %s", v.Type().Field(i).Name)
		}
	}
	if listed, printed := slices.Sorted(maps.Keys(s.all())), slices.Sorted(slices.Values(statementOrder)); !slices.Equal(listed, printed) {
		t.Errorf("%v are listed, %v are printed", listed, printed)
	}
}
