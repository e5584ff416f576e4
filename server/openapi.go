package server

import (
	_ "embed"
	"encoding/json"
	"net/http"
	"sync"

	"go.yaml.in/yaml/v4"
)

// description is the description of the API by OpenAPI. Tests compare it with the routes and with
// the types of this package, and send every example to a server.
//
//go:embed openapi.yaml
var description []byte

// descriptionJSON is the description as it is served.
var descriptionJSON = sync.OnceValue(func() []byte {
	var all any
	if err := yaml.Unmarshal(description, &all); err != nil {
		panic(err) // cannot happen: a test reads the description
	}
	text, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	return text
})

func (s *Server) openAPI(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	_, err := w.Write(descriptionJSON())
	return err
}
