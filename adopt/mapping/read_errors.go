package mapping

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// misfit describes an error of the YAML decoder in the words of the mapping, since the decoder names
// Go types. It finds the field by its place in the file; nil: there is no field at that place.
func misfit(raw []byte, line, column int) error {
	var doc yaml.Node
	if yaml.Unmarshal(raw, &doc) != nil || len(doc.Content) == 0 {
		return nil
	}
	return misfitIn(doc.Content[0], reflect.TypeFor[Mapping](), "", line, column)
}

func misfitIn(node *yaml.Node, typ reflect.Type, path string, line, column int) error {
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if node.Line == line && node.Column == column && (node.Kind != yaml.MappingNode || typ.Kind() != reflect.Struct) {
		given := ""
		if node.Kind == yaml.ScalarNode {
			given = fmt.Sprintf(", got %.60q", node.Value)
		}
		return invalid(cmp.Or(path, "mapping"), "line %d: must be %s%s", line, needs(typ), given)
	}
	if node.Kind != yaml.MappingNode || typ.Kind() != reflect.Struct {
		return nil
	}
	names, types := fieldsOf(typ)
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		full := strings.TrimPrefix(path+"."+key.Value, ".")
		at := slices.Index(names, key.Value)
		switch {
		case key.Line == line && key.Column == column && at < 0:
			return invalid(cmp.Or(full, "mapping"), "line %d: there is no such field; the fields are %s", line, strings.Join(names, ", "))
		case key.Line == line && key.Column == column:
			return invalid(full, "line %d: is given twice", line)
		case at < 0:
			continue
		}
		if err := misfitIn(value, types[at], full, line, column); err != nil {
			return err
		}
	}
	return nil
}

// fieldsOf lists the YAML names and the types of a struct's fields.
func fieldsOf(typ reflect.Type) (names []string, types []reflect.Type) {
	for i := range typ.NumField() {
		f := typ.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case strings.Contains(options, "inline"):
			inner, innerTypes := fieldsOf(f.Type)
			names, types = append(names, inner...), append(types, innerTypes...)
			continue
		case name == "":
			name = strings.ToLower(f.Name)
		}
		names, types = append(names, name), append(types, f.Type)
	}
	return names, types
}

// needs describes the values of a type of field.
func needs(typ reflect.Type) string {
	switch typ {
	case reflect.TypeFor[time.Duration]():
		return "a duration such as 10s or 1h"
	case reflect.TypeFor[Columns]():
		return "the name of a column, or a list of names"
	case reflect.TypeFor[Set]():
		return "columns with their values, such as {status: done}"
	}
	switch typ.Kind() {
	case reflect.Int:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.Bool:
		return "true or false"
	case reflect.Struct:
		names, _ := fieldsOf(typ)
		return "fields with their values: " + strings.Join(names, ", ")
	}
	return "text"
}
