package history

// leftovers judges the database at the end (promise 4): no job is there twice, and the
// store's own check found nothing.
func (j *judge) leftovers() {
	j.checked(4, 1)
	for _, finding := range j.Check {
		j.accuse(4, 0, nil, "the check of the database found: %s", finding)
	}
	seen := make(map[int64]bool, len(j.Final))
	for _, f := range j.Final {
		if seen[f.ID] {
			j.accuse(4, f.ID, nil, "job %d is there twice at the end", f.ID)
		}
		seen[f.ID] = true
	}
}
