//go:build unix

package daemon

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/clitest"
	"github.com/dibs-queue/dibs/internal/needs"
)

// twice is a worker that answers each job first with the given ending and keeps the token. When it
// has the job again, it answers the first attempt a second time before it answers this one.
func twice(ending string) string {
	return `if [ -e "$0.$id" ]; then
			echo "{\"id\":$id,\"token\":\"$(cat "$0.$id")\",\"progress\":{\"done\":7}}"
			echo "{\"id\":$id,\"token\":\"$(cat "$0.$id")\",\"ending\":\"completed\",\"result\":\"late\"}"
			echo "{\"id\":$id,\"token\":\"$(cat "$0.$id")\",\"ending\":\"wrong\"}"
			echo "{\"id\":$id,\"token\":\"$token\",\"ending\":\"completed\",\"result\":\"in time\"}"
		else
			echo $token >"$0.$id"
			echo "{\"id\":$id,\"token\":\"$token\",` + ending + `}"
		fi`
}

// A process that has the same job again has not answered it by what it says late of an earlier
// attempt.
func TestWorkLinesIgnoresLateAnswersToAnEarlierAttempt(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	for _, flags := range [][]string{{"-c", "1"}, {"-c", "3", "--shared"}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			onEach(t, func(c *cli) {
				endings := []string{`\"ending\":\"retry\",\"delay\":0.001`, `\"ending\":\"snooze\",\"delay\":0.001`, `\"ending\":\"release\"`}
				for i, ending := range endings {
					c.OK("enqueue", "q")
					args := append(append([]string{"q", "--lines", "--until-empty"}, flags...), lineWorker(twice(ending))...)
					log := c.End(c.Work(append(args, filepath.Join(c.T.TempDir(), "token"))...))
					job := c.Job(i + 1)
					c.Has(job, object{"state": "completed", "result": "in time"})
					c.HasNot(job, "progress")
					if strings.Count(log, "is ignored\" job=") != 3 {
						c.T.Errorf("the log does not tell of three late lines:\n%s", log)
					}
				}
			})
		})
	}
}

// In adopted tables the number of the attempt may be the same again.
func TestWorkLinesIgnoresLateAnswersOnAdoptedTables(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	for name, mapping := range map[string]string{"token": clitest.ByToken, "start": clitest.ByStart, "side table": clitest.BySide} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(c *cli) {
				x := adoptTickets(c, mapping)
				args := append([]string{"work", "--lines", "--until-empty", "-c", "1"}, lineWorker(twice(`\"ending\":\"release\"`))...)
				log := c.End(c.Work(x.WithTable(append(args, filepath.Join(c.T.TempDir(), "token"))...)[1:]...))
				var late, all int
				if err := x.SQL.QueryRow("select count(case when result like '%late%' then 1 end), count(case when result like '%in time%' then 1 end) from tickets").Scan(&late, &all); err != nil {
					c.T.Fatal(err)
				}
				if late > 0 || all == 0 {
					c.T.Errorf("%d rows were completed by late answers, %d in time\n%s", late, all, log)
				}
			})
		})
	}
}

// A progress that cannot be read fails its own job. The other jobs of the process go on.
func TestWorkLinesFailsOneJobForItsWrongProgress(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		c.Feed("1\n2\n3\n", "enqueue", "q", "--jsonl", "--max-attempts", "1")
		log := c.worked(`jobs="$jobs $id=$token"
			set -- $jobs
			if [ $# = 3 ]; then
				for job; do [ ${job%=*} = 2 ] && echo "{\"id\":2,\"token\":\"${job#*=}\",\"progress\":{\"done\":\"x\"}}"; done
				for job; do [ ${job%=*} = 2 ] || echo "{\"id\":${job%=*},\"token\":\"${job#*=}\",\"ending\":\"completed\"}"; done
			fi`, "-c", "3", "--shared")
		c.once(1)
		c.once(3)
		c.Has(c.Job(2), object{"state": "dead"})
		if got := lastError(c.Job(2)); !strings.HasPrefix(got, "the process answered wrongly: progress.done: must be") {
			c.T.Errorf("job 2 failed with %q\n%s", got, log)
		}
	})
}
