package adopted

import (
	"maps"
	"reflect"
	"testing"
)

// Statements.All must list every statement: Open prepares, and dibs adopt sql prints, only those.
func TestAllStatementsAreListed(t *testing.T) {
	t.Parallel()
	s := &Statements{}
	v := reflect.ValueOf(s).Elem()
	for i := range v.NumField() {
		v.Field(i).Set(reflect.ValueOf(&Statement{}))
		if listed := len(maps.Collect(s.All())); listed != i+1 {
			t.Errorf("All lacks %s", v.Type().Field(i).Name)
		}
	}
}
