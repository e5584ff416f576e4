package sqlserver

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
)

// Not parallel: it replaces the program's logger.
func TestOpenSaysOnceThatItIsExperimental(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	warned = sync.Once{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 {
		if _, err := Open(ctx, "sqlserver://sa@127.0.0.1:1?database=shop", Options{}); err == nil {
			t.Fatal("it is open")
		}
	}
	if lines := strings.Split(strings.TrimSpace(log.String()), "\n"); len(lines) != 1 || !strings.Contains(lines[0], "level=WARN") || !strings.Contains(lines[0], Proven) {
		t.Errorf("it has logged %q", lines)
	}
}
