package wire

import (
	"encoding/json"
	"reflect"
	"strings"
	"sync"
)

// fields are the names that the JSON of a struct has.
type fields struct {
	names string                  // in order, with commas
	types map[string]reflect.Type // what each holds, without pointers
}

// structs holds the fields of structs, by type: finding them takes longer than reading a job.
var structs sync.Map

// fieldsOf lists the fields of a struct; nil: t is none, or reads its JSON by itself.
func fieldsOf(t reflect.Type) *fields {
	if t == nil || t.Kind() != reflect.Struct || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return nil
	}
	if all, found := structs.Load(t); found {
		return all.(*fields)
	}
	all := &fields{types: map[string]reflect.Type{}}
	var names []string
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || !f.IsExported() || name == "-" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		names = append(names, name)
		if all.types[name] = f.Type; f.Type.Kind() == reflect.Pointer {
			all.types[name] = f.Type.Elem()
		}
	}
	all.names = strings.Join(names, ", ")
	structs.Store(t, all)
	return all
}

// of is what a field holds, and whether there is one of this name. If f is nil there may be any.
func (f *fields) of(name string) (t reflect.Type, is bool) {
	if f == nil {
		return nil, true
	}
	t, is = f.types[name]
	return t, is
}
