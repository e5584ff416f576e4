package top

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
)

func TestProgressIsShown(t *testing.T) {
	onEach(t, func(c *cli) {
		c.Feed("1\n2\n3\n", "enqueue", "q", "--lines")
		jobs := c.Rows(c.OK("claim", "q", "-n", "3", "--worker", "w1", "--lease", "1h"))
		token := jobs[0]["token"].(string)
		c.OK("extend", "1", token, "--progress", "43/100", "--text", "importing\tcustomers", "--lease", "1h")
		c.Feed(fmt.Sprintf(`{"id":2,"token":%q,"progress":{"done":7}}`+"\n", token), "extend", "--lease", "1h")
		progress, _ := c.Job(1)["progress"].(map[string]any)
		c.Has(progress, object{"done": 43, "total": 100, "text": "importing\tcustomers"})
		if progress["at"] == nil {
			c.T.Errorf("no time in %v", progress)
		}
		c.HasInOrder(c.OK("show", "1"), "progress", "43 of 100 (43 %), importing", "customers", "(")
		c.HasInOrder(c.OK("show", "2"), "progress", "7", "(")
		c.HasNot(c.Job(3), "progress")
		c.HasInOrder(c.OK("ls"), "on w1", "7; on w1", "43 of 100 (43 %), importing")
		c.HasInOrder(c.OK("top", "--once"), "PROGRESS", "43 of 100")
		if !strings.Contains(c.OK("ls", "--json"), `"progress":{"done":43,"total":100,`) || !strings.Contains(c.OK("top", "--once", "--json"), `"progress":{"done":43,"total":100,`) {
			c.T.Error("JSON has no progress")
		}
		for _, bad := range []string{"x", "-1", "1/x", "1/-2", "1/2/3", "/", " 1"} {
			c.Fails(cmdline.ExitUsage, "", []string{"extend", "1", token, "--progress", bad}, "progress: must be DONE or DONE/TOTAL")
		}
		c.Fails(cmdline.ExitUsage, "", []string{"extend", "--progress", "1"}, "--progress and --text are for one job")
		c.Fails(cmdline.ExitUsage, fmt.Sprintf(`{"id":2,"token":%q,"progress":{"done":-7}}`+"\n", token), []string{"extend"}, "leases[0].progress.done: must not be negative")
		c.OK("finish", "1", token, "--completed")
		c.HasNot(c.Job(1), "progress")
	})
}
