package postgres

import (
	"testing"

	"github.com/dibs-queue/dibs"
)

// What was read last counts, also if the queue was deleted and made again with a lower version:
// otherwise every claim would read the queue anew, for ever.
func TestTheLastReadingOfAQueueCounts(t *testing.T) {
	t.Parallel()
	var c queueCache
	c.init()
	for _, version := range []int64{7, 8, 3} {
		c.put(queueRow{Queue: dibs.Queue{Name: "q"}, version: version})
		if q, ok := c.get("q"); !ok || q.version != version {
			t.Errorf("version %d is cached after %d was read", q.version, version)
		}
	}
}
