package why

import (
	"time"

	"github.com/dibs-queue/dibs"
)

// lateAfter is how late a tick must be to be called late: programs look every two seconds.
const lateAfter = 10 * time.Second

// Late reports whether a schedule's next tick should have had its job by now.
func Late(s dibs.Schedule, now time.Time) bool {
	return !s.Next.IsZero() && now.Sub(s.Next) > lateAfter
}
