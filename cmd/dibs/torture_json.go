package main

import (
	"math"
	"time"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/torture"
	"github.com/dibs-queue/dibs/internal/lab/history"
	"github.com/dibs-queue/dibs/internal/wire"
)

// tortureJSON holds the results of a run. 'dibs help json' describes it.
type tortureJSON struct {
	Kept        bool `json:"kept"`
	Interrupted bool `json:"interrupted,omitempty"`

	Database        string       `json:"database"`
	DatabaseVersion string       `json:"database_version"`
	OwnServer       bool         `json:"own_server"`
	DibsVersion     string       `json:"dibs_version"`
	Platform        string       `json:"platform"`
	Cores           int          `json:"cores"`
	Began           time.Time    `json:"began"`
	Duration        wire.Seconds `json:"duration"`
	Took            wire.Seconds `json:"took"`
	Workers         int          `json:"workers"`
	Producers       int          `json:"producers"`
	Seed            uint64       `json:"seed"`
	Command         string       `json:"command"`

	Totals          torture.Totals   `json:"totals"`
	Faults          map[string]int   `json:"faults"`
	Recoveries      tortureTimes     `json:"recoveries"`     // only those that did not have to wait
	AllRecoveries   tortureTimes     `json:"recoveries_all"` // all, even those that had to wait
	Promises        []tortureVerdict `json:"promises"`
	Linearizability tortureOrders    `json:"linearizability"`
	History         string           `json:"history,omitempty"` // folder of the records, if they are kept
	Report          string           `json:"report,omitempty"`
}

type tortureTimes struct {
	Count int     `json:"count"`
	P50   float64 `json:"p50_ms"`
	P99   float64 `json:"p99_ms"`
	Max   float64 `json:"max_ms"`
}

type tortureVerdict struct {
	Number     int      `json:"number"`
	Promise    string   `json:"promise"`
	Checked    int      `json:"checked"`
	Broken     int      `json:"broken"`
	Violations []string `json:"violations,omitempty"` // only the first few
}

type tortureOrders struct {
	Checked    int      `json:"checked"`
	Undecided  int      `json:"undecided"`
	Broken     int      `json:"broken"`
	Violations []string `json:"violations,omitempty"`
}

func tortureJSONOf(r *torture.Result, report string) tortureJSON {
	j := tortureJSON{
		Kept: r.Kept(), Interrupted: r.Interrupted,
		Database: r.Database, DatabaseVersion: r.Version, OwnServer: r.OwnServer, DibsVersion: r.Dibs, Platform: r.Platform, Cores: r.Cores,
		Began: r.Began.UTC().Truncate(time.Millisecond), Duration: wire.Seconds(r.Duration), Took: wire.Seconds(r.Took.Round(time.Millisecond)),
		Workers: r.Workers, Producers: r.Producers, Seed: r.Seed, Command: r.Command,
		Totals: r.Totals, Faults: map[string]int{}, Recoveries: tortureTimesOf(r.Totals.Unhindered), AllRecoveries: tortureTimesOf(r.Totals.Recoveries),
		Linearizability: tortureOrders{r.Orders.Checked, r.Orders.Undecided, len(r.Orders.Broken), texts(r.Orders.Broken)},
		History:         r.Dir, Report: report,
	}
	for _, f := range torture.FaultTexts {
		j.Faults[f.Name] = r.Faults[f.Name]
	}
	for _, v := range r.Verdicts {
		j.Promises = append(j.Promises, tortureVerdict{v.Number, v.Promise, v.Checked, len(v.Broken), texts(v.Broken)})
	}
	return j
}

func tortureTimesOf(t torture.Times) tortureTimes {
	ms := func(q float64) float64 { return math.Round(t.Quantile(q).Seconds()*1e5) / 100 }
	return tortureTimes{len(t), ms(0.5), ms(0.99), ms(1)}
}

// texts returns the texts of the first few violations.
func texts(all []history.Violation) (list []string) {
	for _, v := range all[:min(len(all), 10)] {
		list = append(list, v.Text)
	}
	return list
}

// demoVerdictJSON holds the verdict on a demo.
type demoVerdictJSON struct {
	Kept        bool          `json:"kept"`
	Jobs        int           `json:"jobs"`
	Attempts    int           `json:"attempts"`
	Took        wire.Seconds  `json:"took"`
	RecoveryP50 wire.Seconds  `json:"recovery_p50"`
	RecoveryMax wire.Seconds  `json:"recovery_max"`
	Promises    []torture.Row `json:"promises"`
}

func demoVerdictOf(r *torture.Result) demoVerdictJSON {
	p50, longest := r.Demo.RecoveryTimes()
	return demoVerdictJSON{
		Kept: r.Kept(), Jobs: r.Demo.Jobs, Attempts: r.Demo.Attempts, Took: wire.Seconds(r.Took),
		RecoveryP50: wire.Seconds(p50), RecoveryMax: wire.Seconds(longest), Promises: r.Rows(),
	}
}
