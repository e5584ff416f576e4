package mapping

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// misfit says in the words of the mapping what is wrong where the reader of YAML gave
// up, for its own are about Go. It goes by the place, not by the text. It is nil if
// there is nothing at that place.
func misfit(raw []byte, line, column int) error {
	var doc yaml.Node
	if yaml.Unmarshal(raw, &doc) != nil || len(doc.Content) == 0 {
		return nil
	}
	return misfitIn(doc.Content[0], reflect.TypeFor[Mapping](), "", line, column)
}

func misfitIn(node *yaml.Node, of reflect.Type, path string, line, column int) error {
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if node.Line == line && node.Column == column && (node.Kind != yaml.MappingNode || of.Kind() != reflect.Struct) {
		got := ""
		if node.Kind == yaml.ScalarNode {
			got = fmt.Sprintf(", got %.60q", node.Value)
		}
		field := path
		if field == "" {
			field = "mapping"
		}
		return invalid(field, "line %d: must be %s%s", line, needs(of), got)
	}
	if node.Kind != yaml.MappingNode || of.Kind() != reflect.Struct {
		return nil
	}
	names, types := fieldsOf(of)
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		full := strings.TrimPrefix(path+"."+key.Value, ".")
		at := slices.Index(names, key.Value)
		switch {
		case key.Line == line && key.Column == column && at < 0:
			return invalid(full, "line %d: there is no such field; there are %s", line, strings.Join(names, ", "))
		case key.Line == line && key.Column == column:
			return invalid(full, "line %d: stands there twice", line)
		case at < 0:
			continue
		}
		if err := misfitIn(value, types[at], full, line, column); err != nil {
			return err
		}
	}
	return nil
}

// fieldsOf are the names of a struct's fields in YAML, and their types.
func fieldsOf(of reflect.Type) (names []string, types []reflect.Type) {
	for i := range of.NumField() {
		f := of.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case strings.Contains(options, "inline"):
			inner, of := fieldsOf(f.Type)
			names, types = append(names, inner...), append(types, of...)
			continue
		case name == "":
			name = strings.ToLower(f.Name)
		}
		names, types = append(names, name), append(types, f.Type)
	}
	return names, types
}

// needs says in words what a field takes.
func needs(of reflect.Type) string {
	switch of {
	case reflect.TypeFor[time.Duration]():
		return "a duration such as 10s or 1h"
	case reflect.TypeFor[Columns]():
		return "the name of a column, or a list of names"
	case reflect.TypeFor[Set]():
		return "columns with their values, such as {status: done}"
	}
	switch of.Kind() {
	case reflect.Int:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.Bool:
		return "true or false"
	case reflect.Struct:
		names, _ := fieldsOf(of)
		return "fields with their values: " + strings.Join(names, ", ")
	}
	return "text"
}
