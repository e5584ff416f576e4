package mapping

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"go.yaml.in/yaml/v4"

	"github.com/dibs-queue/dibs"
)

// Columns are names of columns. In YAML a single name needs no brackets.
type Columns []string

// UnmarshalYAML accepts a name or a list of names.
func (c *Columns) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		*c = Columns{node.Value}
		return nil
	}
	return node.Decode((*[]string)(c))
}

// Read reads a mapping from a YAML file. A field that it does not know is an error.
func Read(path string) (Mapping, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return Mapping{}, err
	}
	m, err := Parse(raw)
	if err != nil {
		return m, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// Parse reads a mapping from YAML.
func Parse(raw []byte) (Mapping, error) {
	def := dibs.DefaultSettings("").Backoff
	m := Mapping{Backoff: def} // the file may give only some fields of the backoff
	d := yaml.NewDecoder(bytes.NewReader(raw))
	d.KnownFields(true)
	err := d.Decode(&m)
	var several *yaml.LoadErrors
	switch {
	case err == nil && !errors.Is(d.Decode(new(yaml.Node)), io.EOF):
		return m, invalid("mapping", "must be one YAML document; a line with --- or ... ends it")
	case err == nil:
		if m.Backoff == def {
			m.Backoff = dibs.Backoff{}
		}
		return m, nil
	case errors.Is(err, io.EOF):
		return m, invalid("mapping", "is empty")
	case errors.As(err, &several) && len(several.Errors) > 0:
		first := several.Errors[0]
		if bad := misfit(raw, first.Mark.Line, first.Mark.Column); bad != nil {
			return m, bad
		}
		err = first
	}
	return m, invalid("mapping", "%v", err)
}

func invalid(field, reason string, args ...any) error {
	return &dibs.InvalidError{Field: field, Reason: fmt.Sprintf(reason, args...)}
}
