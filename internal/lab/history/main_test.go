package history_test

import (
	"os"
	"testing"

	"github.com/dibs-queue/dibs/internal/needs"
)

func TestMain(m *testing.M) {
	needs.Split()
	os.Exit(m.Run())
}
