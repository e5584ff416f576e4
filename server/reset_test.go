package server_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// reset begins that many calls that wait, and breaks them off.
func reset(t *testing.T, transport *http.Transport, url string, n int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			r, err := http.NewRequestWithContext(ctx, "POST", url+"/v1/claim", strings.NewReader(`{"queue":"q","worker":"w","wait":60}`))
			if err != nil {
				t.Error(err)
				return
			}
			r.Header.Set("Content-Type", "application/json")
			if answer, err := transport.RoundTrip(r); err == nil {
				answer.Body.Close()
			}
		})
	}
	cancel()
	all.Wait()
}
