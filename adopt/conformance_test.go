package adopt_test

import (
	"maps"
	"testing"

	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/mytest"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/storetest"
)

// TestConformance runs the tests of all stores on adopted tables, except those in the lists
// below.
func TestConformance(t *testing.T) {
	needs.RaceInPart(t)
	t.Parallel()
	databases := []storetest.Features{
		{Database: "sqlite", Transactions: []string{"sql"}},
		{Database: "postgres", Transactions: []string{"sql"}, OpenTx: true, Machines: true},
		{Database: "mariadb", Transactions: []string{"sql"}, OpenTx: true, Machines: true},
	}
	for _, c := range []struct {
		name    string
		side    bool
		without map[string]string
	}{{"token in the row", false, withoutInRow}, {"side table", true, withoutSide}} {
		for _, f := range databases {
			t.Run(c.name+", "+f.Database, func(t *testing.T) {
				if c.side != (f.Database == "postgres") {
					needs.Night(t, "each shape is tried on one database, each database with one shape")
				}
				without := maps.Clone(withoutAny)
				maps.Copy(without, c.without)
				if f.Database == "mariadb" {
					maps.Copy(without, withoutMaria)
				}
				storetest.RunSome(t, f, func(t testing.TB) storetest.Setup {
					driver, dsn := "", ""
					switch f.Database {
					case "mariadb":
						driver, dsn = "mysql", mytest.Address(t)
					case "postgres":
						driver, dsn = "pgx", pgtest.URL(t)
					default:
						driver, dsn = "sqlite", file(t)
					}
					h := newHarness(t, driver, dsn, c.side)
					return storetest.Setup{
						Store:   h,
						Another: func(t testing.TB) admin.Database { return h.another(t, driver, dsn) },
						Begin:   map[string]storetest.Begin{"sql": h.beginTx},
						Pass:    h.pass,
					}
				}, without)
			})
		}
	}
}

// Reasons why a test does not apply to an adopted table.
const (
	owners    = "rows are inserted, changed and deleted with SQL by the programs that own the table"
	settled   = "the settings of a queue are the mapping's, which has none like that"
	oneGroup  = "all groups have the limit of the mapping"
	oneLimit  = "a process keeps the limit of the mapping that it began with: another needs other processes"
	blocked   = "a row does not tell that it waits for its group"
	passing   = "a claim of some kinds lets rows of other kinds in the group wait"
	ownerTx   = "the store's transaction claims and finishes, but enqueues nothing; its tests are in tx_test.go"
	goesDown  = "where a column counts attempts, one that does not count is taken back"
	lastError = "the table keeps one error, if it has a column for it"
	forgets   = "the side table forgets rows that have ended"
	oneQueue  = "a table is one queue: Due names it, and a claim looks at the rows"
	noTurns   = "no lock of MariaDB's that a claim could have for a group ends with a transaction of the caller's"
	nobody    = "the table has no place for a register of workers"
)

// withoutAny lists the tests that apply to no adopted table.
var withoutAny = map[string]string{
	"enqueue": owners, "unique": owners, "jobs": owners, "chaos": owners, "limits": owners, "schedules": owners,
	"flows": owners, "flow order": owners, "txflows": owners, "flows at once": owners, "add": owners, "tx add": owners,
	"held": owners, "windows": owners, "txwindows": owners,
	"misuse": owners, "list": owners, "stats": owners, "history": owners, "failures": owners, "wake": owners, "close": owners, "repair": owners, "rows": owners, "wide": owners, "changes": owners,
	"middleware": owners, "workers": nobody,
	"queues": settled, "delete queue": settled, "rates": settled, "fair": settled, "grouprates": settled, "settings": settled,
	"tx":       ownerTx,
	"progress": "the table has no place for it", "steps": "the table has no place for them", "txsteps": "the table has no place for them",

	"waiting/a job that has ended is returned at once, as Get shows it":      owners,
	"waiting/the end of a job ends all waiting for it, in every process":     owners,
	"waiting/a requeued job is waited for until it ends again":               owners,
	"waiting/waiting ends with an error when the job ended and was pruned":   owners,
	"waiting/waiting ends with an error when the job ended and was not kept": settled,
	"waiting/what this store ends is seen at once":                           ownerTx,
	"waiting/waiting goes on while the queue is paused":                      settled,
	"waiting/a job that does not exist is not waited for":                    ownerTx,
	"waiting/an end in a transaction counts from the commit on":              ownerTx,
	"due": oneQueue,

	"txclaim/a lost connection gives the jobs back at once":        settled,
	"txclaim/a claim that a savepoint undid is lost":               settled,
	"txclaim/another Tx of the transaction has the same jobs":      settled,
	"txclaim/order, kinds and pause hold":                          settled,
	"txclaim/without retention the jobs are gone after the commit": settled,
	"txclaim/every ending can be written in the transaction":       goesDown + "; " + lastError,

	"claim/lifo takes the newest of the best priority":       settled,
	"claim/lifo takes the newest of each of many priorities": settled,
	"claim/the order can be changed in the middle":           settled,
	"concurrency/order and kinds hold":                       settled,
	"resume/resumed jobs come in the queue's order":          settled,

	"extend/a job to be cancelled is told each time, and extended":                             owners,
	"extend/an attempt that runs longer than its queue allows is told each time, and extended": settled,
	"extend/a timeout that is set, lengthened or removed counts at the next extension":         settled,
	"fence/a job that was never claimed is refused":                                            owners,
	"fence/a pruned job is refused":                                                            owners,

	"finish/what becomes of a job follows one table":           owners,
	"finish/without retention a finished job is gone at once":  owners,
	"fence/of two that finish at once one is refused":          forgets + "; " + goesDown,
	"finish/the error history keeps the last ten":              lastError + "; the side table does not note when attempts were due and claimed",
	"sweep/a job that kills its worker dies too":               lastError + "; the side table does not note when attempts were due and claimed",
	"finish/an error text may hold any bytes":                  lastError,
	"finish/an error text is cut at a character to 4 KiB":      lastError,
	"sweep/a cancelled job whose worker died is not run again": owners,
	"sweep/finished jobs go when their time is over":           owners,

	"groups/the rest of the group is shown as blocked":                          blocked,
	"groups/a kind that was not asked for still goes first":                     passing,
	"groups/in a strict queue it holds its place until it is completed or dead": settled,
	"groups/a queue can become strict and be so no more":                        settled,
	"groups/jobs in an open transaction block nobody":                           ownerTx,
	"groups/cancelling the first lets the next pass":                            owners,
	"groups/a requeued job waits for its turn":                                  owners,
	"grouplimits/a group's own limit counts more, and can be taken away":        oneGroup,
	"grouplimits/a limit that grows takes effect at once":                       oneGroup,
	"grouplimits/a limit that shrinks holds from the next claim on":             oneGroup,
	"grouplimits/a limit that shrinks holds in strict order too":                settled,
	"grouplimits/a limit of another queue's group is another":                   oneGroup,
	"grouplimits/another store follows at once":                                 oneGroup,
	"grouplimits/who looks sees how many jobs wait for each group":              owners,
	"race/groups never run more than their limit, whichever it is just now":     oneGroup,
	"race/the queue never runs more than its limit, whichever it is just now":   oneLimit,
}

// withoutMaria lists the tests that do not apply on MariaDB.
var withoutMaria = map[string]string{
	"twoagents/with groups B gets all that its groups allow at once":      noTurns,
	"twoagents/when A rolls back B gets A's jobs in their order":          noTurns,
	"txclaim/a job that is not finished by the commit stays claimed":      noTurns,
	"txclaim/a rollback gives the jobs back at once, as if never claimed": noTurns,
	"txclaim/group limits hold":                                           noTurns,
	"txclaim/the queue's concurrency limit holds":                         noTurns,
}

// withoutInRow lists the tests that do not apply if rows hold their claims.
var withoutInRow = map[string]string{
	"finish/snooze puts the job off without counting the attempt":                     goesDown,
	"finish/release gives the job back in its old place without counting the attempt": goesDown,

	"waiting/only the last end counts":                                  goesDown,
	"txclaim/a failure is counted by a savepoint, a retry and a commit": lastError,
	"retry/the attempts run out":                                        lastError,
	"sweep/a job whose lease ended waits again in its old place":        lastError,
}

// withoutSide lists the tests that do not apply if a side table holds the claims.
var withoutSide = map[string]string{
	"finish/completed ends the job and keeps the result":          forgets,
	"finish/dead ends the job whatever attempts are left":         "what is dead is so in the side table, and may live again",
	"race/every job is claimed exactly once and none is left":     forgets,
	"race/enqueuers and claimers at once lose and double nothing": forgets,
	"race/abandoned jobs are taken over once":                     forgets,
	"txclaim/what is claimed and finished is so with the commit":  forgets,
}
