package pagetest

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/dibs-queue/dibs/internal/open"
	"github.com/dibs-queue/dibs/server"
)

// largeCounts writes large counts into the overview, and says by how much it is then wider than its place.
const largeCounts = `(() => {
	const large = { Waiting: "1 234 567", Scheduled: "10 000+", Blocked: "123 456", Running: "1 234", Dead: "123 456", Oldest: "26 h", "In a minute": "12 345", "Out a minute": "12 345", Workers: "123" };
	for (const [label, text] of Object.entries(large)) for (const e of document.querySelectorAll('#queues td[data-label="' + label + '"]')) e.textContent = text;
	const box = document.querySelector("#queues");
	return box.scrollWidth - box.clientWidth;
})()`

// On a laptop the overview has all its columns, also where times are long and counts large. On a telephone a queue and a
// job take few lines: what matters first fits on few screens.
func TestTablesFitSmallWindows(t *testing.T) {
	file := filepath.Join(t.TempDir(), "jobs.db")
	s := furnish(t, database(t, open.URL("sqlite:"+file)))
	s.invent(file)
	s.slow(file)
	b := newTab(t, serve(t, s, server.Options{}))
	b.open("/")
	b.until(`document.querySelectorAll("#queues .rest").length > 0 && ` + on)
	b.size(1280)
	if wide := is[int](b, largeCounts); wide > 0 {
		t.Errorf("%d px of the overview are cut off at 1280 px", wide)
	}
	b.size(390)
	if high := is[int](b, `Math.max(...[...document.querySelectorAll("#queues tbody tr")].map((e) => e.offsetHeight))`); high > 110 {
		t.Errorf("on a telephone a queue is %d px high", high)
	}
	for path, most := range map[string]int{"/queues/mail": 90, "/queues/mail?state=dead": 130} {
		b.open(path)
		if high := is[int](b, `(() => { const list = document.querySelectorAll("#jobs tbody tr"); return Math.round(document.querySelector("#jobs tbody").offsetHeight / list.length) })()`); high > most {
			t.Errorf("%s: on a telephone a job is %d px high", path, high)
		}
	}
	b.open(fmt.Sprintf("/jobs/%d", s.bind))
	for _, wide := range []int64{360, 390, 412, 430} {
		b.size(wide)
		if n := is[int](b, shortIDs); n > 0 {
			t.Errorf("on a telephone of %d px %d rows of a flow begin otherwise than those with longer ids", wide, n)
		}
	}
}

// shortIDs gives the jobs of a flow ids of one and of two digits, and a queue with a short name. It says in how many rows
// the first job is beside the kind.
const shortIDs = `(() => {
	let beside = 0;
	for (const [i, row] of document.querySelectorAll(".flow tbody tr").entries()) {
		const first = row.querySelector('td[data-label="First job"]');
		if (!first) continue;
		first.querySelector("a").textContent = i % 2 ? "7" : "17";
		row.querySelector('td[data-label="Queue"] a').textContent = "q";
		if (first.offsetTop <= row.cells[0].offsetTop + 5) beside++;
	}
	return beside;
})()`

// slow has the completed jobs wait and run for long.
func (s *shop) slow(file string) {
	db, err := sql.Open("sqlite", file)
	s.check(err)
	defer db.Close()
	_, err = db.ExecContext(s.Context(), `update dibs_finished set run_at = run_at - 100000000 * (1 + id % 20), claimed_at = claimed_at - 2500000 * (1 + id % 20)
		where state = 'completed'`)
	s.check(err)
}
