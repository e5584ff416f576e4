package server_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/dibs-queue/dibs/server"
	"github.com/dibs-queue/dibs/sqlite"
)

// A service that has the API of its queue beside its own routes.
func ExampleNew() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store, err := sqlite.Open(ctx, filepath.Join(dir, "jobs.db"), sqlite.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	api := server.New(store, server.Options{})
	mux := http.NewServeMux()
	mux.Handle("/queue/", http.StripPrefix("/queue", api)) // POST /queue/v1/jobs
	web := &http.Server{Handler: mux}
	web.RegisterOnShutdown(func() { _ = api.Close() }) // answers the clients that wait

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go web.Serve(listener)
	answer, err := http.Post("http://"+listener.Addr().String()+"/queue/v1/jobs", "application/json", strings.NewReader(`{"queue":"emails","payload":{"to":"ann@example.com"}}`))
	if err != nil {
		log.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(answer.Status, " ", string(text))
	if err := web.Shutdown(ctx); err != nil {
		log.Fatal(err)
	}
	if err := api.Close(); err != nil { // Shutdown does not wait for the call above
		log.Fatal(err)
	}
	// Output: 201 Created {"id":1}
}
