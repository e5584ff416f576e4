package sqlite_test

import (
	"testing"

	"github.com/dibs-queue/dibs/internal/lab/model"
	"github.com/dibs-queue/dibs/internal/needs"
)

// TestModel compares the store with the reference model. The long form:
//
//	DIBS_SOAK=1 go test ./sqlite -run '^TestModel$' -v -timeout 0
func TestModel(t *testing.T) {
	needs.Long(t)
	t.Parallel()
	model.Check(t, modelDatabases(t))
}

func modelDatabases(t testing.TB) model.Maker { return model.SQLite(t, nil) }
