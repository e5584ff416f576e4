package workers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/needs"
)

// With --shared, lines about other jobs come before the answer to a question. Nothing of them is lost: each job is
// answered, in the order in which they came, except one that is to stop before it has begun.
func TestTheFlowWorkerReadsLinesOfOtherJobsWhileItAsks(t *testing.T) {
	t.Parallel()
	needs.Program(t, "python3")
	needs.Files(t, "flow.py")
	line := func(id int, rest string) string { return fmt.Sprintf(`{"id":%d,"token":"t%d",%s}`, id, id, rest) }
	worker := exec.CommandContext(t.Context(), "python3", "flow.py")
	worker.Stdin = strings.NewReader(strings.Join([]string{
		line(1, `"kind":"order","payload":"ann"`),
		line(2, `"kind":"order","payload":"bob"`),
		line(3, `"kind":"count","payload":"once"`),
		line(4, `"kind":"order","steps":{"charge":"paid"},"payload":"cid"`),
		line(5, `"kind":"order","payload":"dan"`),
		line(3, `"stop":"cancelled"`),
		line(1, `"step":"charge"`),
		line(2, `"step":"charge","error":"the lease is lost"`),
		line(5, `"stop":"timeout"`),
		line(5, `"stop":"timeout"`),
		line(6, `"kind":"sum","payload":null`),
		line(6, `"before":{"jobs":[{"kind":"count","result":4},{"kind":"split"}],"next":"9"}`),
		line(6, `"before":{"jobs":[{"kind":"count","result":3}]}`),
	}, "\n"))
	out, err := worker.Output()
	if err != nil {
		t.Fatalf("it ends with %v", err)
	}
	want := []string{
		line(1, `"step":"charge","value":"receipt of ann"`),
		line(3, `"ending":"release"`),
		line(1, `"ending":"completed","result":"receipt of ann"`),
		line(2, `"step":"charge","value":"receipt of bob"`),
		line(2, `"ending":"retry","error":"the lease is lost"`),
		line(4, `"ending":"completed","result":"paid"`),
		line(5, `"step":"charge","value":"receipt of dan"`),
		line(5, `"ending":"retry","error":"timeout"`),
		line(6, `"before":{"after":0}`),
		line(6, `"before":{"after":"9"}`),
		line(6, `"ending":"completed","result":7`),
	}
	if got := strings.ReplaceAll(strings.ReplaceAll(string(out), `": `, `":`), `, "`, `,"`); got != strings.Join(want, "\n")+"\n" {
		t.Errorf("it writes\n%swant\n%s", got, strings.Join(want, "\n"))
	}
}

// The jobs that one adds are counted before what comes after it adds them up, in one process and in several.
func TestTheFlowWorkerWorks(t *testing.T) {
	needs.Long(t)
	t.Parallel()
	needs.Program(t, "python3")
	needs.Files(t, "flow.py")
	dibs := needs.Build(t, "../../cmd/dibs")
	const flow = `{"queue":"books","kind":"split","payload":["once","upon","a time"],"ref":"book"}
{"queue":"books","kind":"sum","after":["book"]}
`
	for name, how := range map[string][]string{"several": nil, "shared": {"--shared"}} {
		for db, url := range map[string]func(t *testing.T) string{
			"sqlite":   func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "books.db") },
			"postgres": func(t *testing.T) string { return pgtest.URL(t) },
		} {
			t.Run(name+" on "+db, func(t *testing.T) {
				t.Parallel()
				q := &queue{t, dibs, append(os.Environ(), "DIBS_DB="+url(t), "DIBS_TABLE=")}
				q.run("", "migrate")
				for range 8 {
					q.run(flow+`{"queue":"books","kind":"order","payload":"ann"}`+"\n", "enqueue", "--jobs", "--max-attempts", "1")
				}
				q.run("", append(append([]string{"work", "books", "--lines", "--concurrency", "4", "--until-empty"}, how...), "--", "python3", "flow.py")...)
				for i := range 8 {
					if sum, order := q.job(3*i+2), q.job(3*i+3); sum.Result != 14.0 || order.Result != "receipt of ann" || sum.Attempt-sum.Excused != 1 {
						t.Errorf("flow %d: the sum is %+v, the order %+v", i, sum, order)
					}
				}
				q.run("", "check")
			})
		}
	}
}
