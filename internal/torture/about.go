package torture

import (
	"context"
	"database/sql"
	"runtime"
	"strings"
	"time"
)

// About is what is run, where and how. The first part is the caller's to say, Run finds
// out the rest.
type About struct {
	Dibs     string        `json:"dibs_version"`
	Command  string        `json:"command"` // repeats the run
	Workers  int           `json:"workers"`
	Seed     uint64        `json:"seed"`
	Duration time.Duration `json:"duration"` // how long the faults are to go on; the run takes some seconds longer

	Adopted string `json:"adopted,omitempty"` // the table, if a copy of one is tortured

	Database    string         `json:"database"` // PostgreSQL or SQLite
	Version     string         `json:"database_version"`
	OwnServer   bool           `json:"own_server"` // it may be killed
	Platform    string         `json:"platform"`   // such as linux/amd64
	Cores       int            `json:"cores"`
	Producers   int            `json:"producers"`
	Began       time.Time      `json:"began"`
	Took        time.Duration  `json:"took"`        // how long it took until the database was drained
	Interrupted bool           `json:"interrupted"` // the faults were ended early
	Faults      map[string]int `json:"faults"`      // by the names of FaultTexts
}

// describe finds out what is tortured.
func (r *run) describe(ctx context.Context) error {
	a := &r.About
	a.Platform, a.Cores, a.Producers = runtime.GOOS+"/"+runtime.GOARCH, runtime.NumCPU(), producers
	a.Began, a.OwnServer = time.Now().UTC().Round(0), r.Server != nil
	query := "show server_version"
	if a.Database = "PostgreSQL"; r.onSQLite() {
		a.Database, query = "SQLite", "select sqlite_version()"
	}
	var version string
	err := r.withSQL(func(db *sql.DB) error { return db.QueryRowContext(ctx, query).Scan(&version) })
	a.Version, _, _ = strings.Cut(version, " ") // distributions append their own
	return err
}
