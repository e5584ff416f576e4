package mysql

import (
	"errors"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"
)

// TestACallGivesUpInTime counts how long a call waits whose transactions all wait for a lock, or all end at once.
func TestACallGivesUpInTime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		each time.Duration // how long a transaction takes
		most time.Duration
		runs int
	}{
		{&driver.MySQLError{Number: codeLockWait}, lockWait * time.Second, 15 * time.Second, 2},
		{&driver.MySQLError{Number: codeLockWait}, lockWait*time.Second - time.Millisecond, 15 * time.Second, 3},
		{&driver.MySQLError{Number: codeDeadlock}, 0, 0, repeats},
		{errors.New("another"), 0, 0, 1},
		{nil, 0, 0, 1},
	} {
		took, runs := c.each, 1
		for again(c.err, runs, took) {
			took, runs = took+c.each, runs+1
		}
		if took > c.most || runs != c.runs {
			t.Errorf("after %v, each after %v, a call has run %d transactions in %v", c.err, c.each, runs, took)
		}
	}
}
