package torture

import (
	"testing"
	"time"
)

func TestTheDrainEndsOnlyWithoutProgress(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	p := stallTimer{since: begin}
	at := begin
	for live := int64(1138); live > 628; live-- { // one job in about a minute
		at = at.Add(stallTime - time.Second)
		if p.stalled(tally{live: live}, at) {
			t.Fatalf("the drain gave up with %d live jobs after %v, although a job has just ended", live, at.Sub(begin))
		}
	}
	p.stalled(tally{628, 1}, at)
	if p.stalled(tally{628, 2}, at.Add(stallTime)) {
		t.Error("the drain gave up although a job has ended")
	}
	if !p.stalled(tally{628, 2}, at.Add(2*stallTime)) {
		t.Error("the drain did not give up after a minute without progress")
	}
}
