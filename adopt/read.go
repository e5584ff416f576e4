package adopt

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"go.yaml.in/yaml/v4"

	"github.com/dibs-queue/dibs"
)

// Columns are names of columns. In YAML one may stand by itself.
type Columns []string

// UnmarshalYAML takes a name or a list of them.
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
	var m Mapping
	d := yaml.NewDecoder(bytes.NewReader(raw))
	d.KnownFields(true)
	if err := d.Decode(&m); err != nil {
		var typed *yaml.TypeError
		if errors.As(err, &typed) && len(typed.Errors) > 0 {
			return m, &dibs.InvalidError{Field: "mapping", Reason: fmt.Sprint(typed.Errors[0])}
		}
		return m, &dibs.InvalidError{Field: "mapping", Reason: err.Error()}
	}
	return m, nil
}
