package history

// Owned judges by the calls alone what needs no knowledge of how jobs came to be: who
// owned them (2), what stale tokens did (3), and how many of a group ran at once (6). It
// is for tables that other programs fill. Their claims may have a token for each job.
func Owned(e Evidence) []Verdict {
	j := &judge{index: newIndex(&e), verdicts: make([]Verdict, len(promises)-1), units: make(map[unitKey]*unit), absent: make(map[[2]string][]*absence)}
	for n := range j.verdicts {
		j.verdicts[n] = Verdict{Number: n + 1, Promise: promises[n+1]}
	}
	var l life
	for n := range j.ids {
		j.live(n, &l)
		j.owners(&l)
		j.fence(&l)
		j.collect(&l)
	}
	j.limits()
	return []Verdict{j.verdicts[1], j.verdicts[2], j.verdicts[5]}
}
