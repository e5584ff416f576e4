package torture

import (
	"context"
	"database/sql"
	"runtime"
	"strings"
	"time"
)

// About says what a run consists of, where and how. The caller sets the first fields, up to
// Jobs, and Run the others.
type About struct {
	Dibs     string        `json:"dibs_version"`
	Command  string        `json:"command"` // the command that repeats the run
	Workers  int           `json:"workers"`
	Seed     uint64        `json:"seed"`
	Duration time.Duration `json:"duration"` // how long the faults go on; the run takes some seconds longer

	Adopted string `json:"adopted,omitempty"` // the table, if the run works on a copy of one
	Jobs    int    `json:"jobs,omitempty"`    // how many jobs a demo has; 0: the run is none

	Database    string         `json:"database"` // PostgreSQL, MariaDB, SQL Server or SQLite
	Version     string         `json:"database_version"`
	OwnServer   bool           `json:"own_server"` // the run may kill the server
	Platform    string         `json:"platform"`   // such as linux/amd64
	Cores       int            `json:"cores"`
	Producers   int            `json:"producers"`
	Began       time.Time      `json:"began"`
	Took        time.Duration  `json:"took"`        // time until all jobs had ended
	Interrupted bool           `json:"interrupted"` // the faults ended early
	Faults      map[string]int `json:"faults"`      // how many there were, by the names in FaultTexts
}

// describe fills in what the run finds out about itself.
func (r *run) describe(ctx context.Context) error {
	a := &r.About
	a.Platform, a.Cores, a.Producers = runtime.GOOS+"/"+runtime.GOARCH, runtime.NumCPU(), r.plan.producers
	a.Began, a.OwnServer = time.Now().UTC().Round(0), r.Server != nil
	kind := r.kind()
	a.Database = kind.title
	var version string
	err := r.withSQL(func(db *sql.DB) error { return db.QueryRowContext(ctx, kind.version).Scan(&version) })
	a.Version, _, _ = strings.Cut(version, " ") // distributions append their own version
	return err
}
