package wakeups

import (
	"slices"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
)

func woken(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestListenersAreWokenForTheirQueue(t *testing.T) {
	t.Parallel()
	added := 0
	l := Listeners{Added: func() { added++ }}
	first, stopFirst := l.Add("")
	second, stopSecond := l.Add(dibs.DefaultQueue)
	other, stopOther := l.Add("other")
	l.Wake(dibs.DefaultQueue, "nobody's")
	l.Wake(dibs.DefaultQueue)
	if !woken(first) || woken(first) || !woken(second) || woken(other) || added != 3 {
		t.Errorf("of %d listeners others than those of the queue were woken, or more than once", added)
	}
	if l.LastWoken(dibs.DefaultQueue).IsZero() || !l.LastWoken("other").IsZero() || !l.LastWoken("nobody's").IsZero() {
		t.Error("a queue was woken that was not, or the other way round")
	}
	stopFirst()
	l.Wake(dibs.DefaultQueue)
	if woken(first) || !woken(second) {
		t.Error("a listener that has gone is woken, or one that has not is not")
	}
	stopSecond()
	if got := l.Queues(); !slices.Equal(got, []string{"other"}) || !l.LastWoken(dibs.DefaultQueue).IsZero() {
		t.Errorf("it remembers queues without listeners: %v", got)
	}
	stopOther()
}

func TestAHeldQueueIsWokenOnlyIfItIsWorthIt(t *testing.T) {
	t.Parallel()
	var l Listeners
	soon, stop := l.Add("soon")
	defer stop()
	late, stopLate := l.Add("late")
	defer stopLate()
	l.WakeHeld("late", far+1)
	l.WakeHeld("soon", 0)
	<-soon
	if woken(late) {
		t.Error("workers poll sooner than that")
	}
}

func TestNotificationsThatBringNothingAreDelayed(t *testing.T) {
	t.Parallel()
	var l Listeners
	delivered := 0
	notify := func() { l.Notified("q", func() { delivered++ }) }
	if notify(); delivered != 0 {
		t.Error("nobody listens, and it is delivered")
	}
	_, stop := l.Add("q")
	defer stop()
	for range trustedAtFirst {
		notify()
	}
	if delivered != trustedAtFirst {
		t.Errorf("%d of the first %d were delivered", delivered, trustedAtFirst)
	}
	done := make(chan struct{})
	l.Notified("q", func() { close(done) })
	select {
	case <-done: // it was delivered at the end of its pause
	case <-time.After(time.Minute):
		t.Error("it was not delivered at all")
	}
	l.Fruitful("q")
	if notify(); delivered != trustedAtFirst+1 {
		t.Error("after a job was found the next one is not delivered at once")
	}
}
