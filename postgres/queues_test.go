package postgres

import (
	"fmt"
	"testing"

	"github.com/dibs-queue/dibs"
)

// What a store remembers of queues is bounded, however many there are.
func TestCachesOfQueuesAreBounded(t *testing.T) {
	t.Parallel()
	var c queueCache
	c.init()
	for i := range maxCached + 1000 {
		name := fmt.Sprint("q", i)
		c.replace(nil, []queueRow{{Queue: dibs.Queue{Name: name}}})
		c.addLane(name, 1)
	}
	if len(c.rows) != maxCached || len(c.lanes) != maxCached {
		t.Errorf("%d queues and the lanes of %d are cached, the limit is %d", len(c.rows), len(c.lanes), maxCached)
	}
}

// What was read last counts, also if the queue was deleted and made again with a lower version:
// otherwise every claim would read the queue anew, for ever.
func TestTheLastReadingOfAQueueCounts(t *testing.T) {
	t.Parallel()
	var c queueCache
	c.init()
	for _, version := range []int64{7, 8, 3} {
		c.replace(nil, []queueRow{{Queue: dibs.Queue{Name: "q"}, version: version}})
		if q, ok := c.get("q"); !ok || q.version != version {
			t.Errorf("version %d is cached after %d was read", q.version, version)
		}
	}
}
