package server_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/server"
)

// What clients of many kinds cost does not grow with the kinds: jobs of a kind that none of them wants
// are due all the time, and more of them come.
func TestClientsOfManyKindsCostNoStatementEach(t *testing.T) {
	needs.Long(t)
	needs.Race(t)
	onDatabases(t, func(t *testing.T, db admin.Database) {
		const clients = 200
		w := &watched{Database: db}
		s := closing(t, server.New(w, server.Options{}))
		var answers []<-chan *httptest.ResponseRecorder
		for i := range clients {
			answers = append(answers, claimAs(t, s, fmt.Sprintf(`{"worker":"w","kinds":["k%d","also %d"],"wait":60}`, i, i)))
		}
		quiet := func() bool { return s.Waiting() == clients && s.Busy() == 0 }
		until(t, "all wait", func() bool { return w.claims.Load() >= clients && quiet() })
		looks, calls := w.looks.Load(), w.claims.Load()+w.searches.Load()
		for n := range int64(4) {
			enqueue(t, db, dibs.NewJob{Kind: "nobody's"})
			until(t, "the server has looked", func() bool { return w.looks.Load() > looks+n })
		}
		until(t, "all wait again", quiet)
		// In each of these seconds there was a wakeup and a look that found something, or a few more of either.
		seconds := w.looks.Load() - looks + 1
		if n := w.claims.Load() + w.searches.Load() - calls; n > 4*server.FewKinds*seconds {
			t.Errorf("%d calls in about %d seconds for %d clients that want other kinds", n, seconds, clients)
		}
		for _, i := range []int{150, 3, 77} {
			enqueue(t, db, dibs.NewJob{Kind: fmt.Sprintf("also %d", i), Group: fmt.Sprint("g", i), Delay: time.Duration(i%2) * time.Second})
		}
		for _, i := range []int{150, 3, 77} {
			r := await(t, answers[i], "the job of its kind")
			if got := jobsOf(t, r.Code, r.Body.Bytes()); len(got) != 1 || got[0].Kind != fmt.Sprintf("also %d", i) {
				t.Errorf("client %d got %s", i, r.Body)
			}
		}
	})
}

// hidden does not tell the kinds of due jobs, as if the first thousand were of another kind.
type hidden struct{ *watched }

func (h hidden) DueKinds(context.Context, string) ([]string, error) { return []string{"another"}, nil }

func TestAJobBehindAThousandOfOtherKindsIsFound(t *testing.T) {
	needs.Race(t)
	onDatabases(t, func(t *testing.T, db admin.Database) {
		const clients = 3 * server.FewKinds
		w := &watched{Database: db}
		s := closing(t, server.New(hidden{w}, server.Options{}))
		var answers []<-chan *httptest.ResponseRecorder
		for i := range clients {
			answers = append(answers, claimAs(t, s, fmt.Sprintf(`{"worker":"w","kinds":["k%d"],"wait":60}`, i)))
		}
		until(t, "all wait", func() bool { return w.claims.Load() >= clients && s.Waiting() == clients && s.Busy() == 0 })
		for i := range clients {
			enqueue(t, db, dibs.NewJob{Kind: fmt.Sprintf("k%d", i)})
		}
		for i, a := range answers {
			r := await(t, a, "the job of its kind")
			if got := jobsOf(t, r.Code, r.Body.Bytes()); len(got) != 1 || got[0].Kind != fmt.Sprintf("k%d", i) {
				t.Errorf("client %d got %s", i, r.Body)
			}
		}
	})
}

// A job behind thousands of other kinds goes to the client that wants it after few calls, however many others wait.
func TestAJobBehindAThousandTakesFewCalls(t *testing.T) {
	needs.Race(t)
	onDatabases(t, func(t *testing.T, db admin.Database) {
		const clients = 200
		w := &watched{Database: db}
		s := closing(t, server.New(hidden{w}, server.Options{}))
		var answers []<-chan *httptest.ResponseRecorder
		for i := range clients {
			answers = append(answers, claimAs(t, s, fmt.Sprintf(`{"worker":"w","kinds":["k%d"],"wait":60}`, i)))
		}
		until(t, "all wait", func() bool { return w.claims.Load() >= clients && s.Waiting() == clients && s.Busy() == 0 })
		claims := w.claims.Load()
		for _, i := range []int{199, 100, 0} {
			enqueue(t, db, dibs.NewJob{Kind: fmt.Sprintf("k%d", i)})
			r := await(t, answers[i], "the job of its kind")
			if got := jobsOf(t, r.Code, r.Body.Bytes()); len(got) != 1 {
				t.Errorf("client %d got %s", i, r.Body)
			}
		}
		until(t, "all others wait", func() bool { return s.Waiting() == clients-3 && s.Busy() == 0 })
		// One or two parts of at most eight clients each were served for a job: its wakeup and the look may both find it.
		if n := w.claims.Load() - claims; n > 3*2*server.FewKinds {
			t.Errorf("three jobs took %d claims", n)
		}
	})
}

// unsure is a database that says that there may be jobs of whatever kinds, as it does of limited groups.
type unsure struct{ hidden }

func (u unsure) Due(ctx context.Context, queues, kinds []string) ([]string, error) {
	_, err := u.hidden.Due(ctx, queues, kinds)
	return queues, err
}

// What a look costs is bounded where the database cannot say for which of many clients there are jobs, and each
// of them has its turn.
func TestClientsOfKindsThatMayBeDueTakeTurns(t *testing.T) {
	needs.Long(t)
	needs.Race(t)
	onDatabases(t, func(t *testing.T, db admin.Database) {
		const clients = 100 * server.FewKinds
		w := &watched{Database: db}
		s := closing(t, server.New(unsure{hidden{w}}, server.Options{}))
		var last <-chan *httptest.ResponseRecorder
		for i := range clients {
			last = claimAs(t, s, fmt.Sprintf(`{"worker":"w","kinds":["k%d"],"wait":60}`, i))
		}
		until(t, "all wait", func() bool { return w.claims.Load() >= clients && s.Waiting() == clients && s.Busy() == 0 })
		looks, calls := w.looks.Load(), w.claims.Load()+w.searches.Load()
		enqueue(t, db, dibs.NewJob{Kind: fmt.Sprintf("k%d", clients-1)})
		until(t, "three looks", func() bool { return w.looks.Load() >= looks+3 })
		rounds := w.looks.Load() - looks + 3 // one more for the wakeup, one for the look under way, and one for the look before it, whose calls may not be over
		if n := w.claims.Load() + w.searches.Load() - calls; n > rounds*(server.MaxSearch+4*server.FewKinds) {
			t.Errorf("%d calls in %d rounds", n, rounds)
		}
		if r := await(t, last, "the job of its kind"); len(jobsOf(t, r.Code, r.Body.Bytes())) != 1 {
			t.Errorf("%d %s", r.Code, r.Body)
		}
	})
}
