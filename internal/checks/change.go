package checks

import "github.com/dibs-queue/dibs/admin"

// maxChangeText is how many bytes the texts of a change have at most.
const maxChangeText = 1 << 10

// NoteChange checks a change to note, and makes its texts fit.
func NoteChange(c *admin.Change) error {
	if c.Did == "" {
		return invalid("did", "must not be empty")
	}
	for _, text := range []*string{&c.Who, &c.Did, &c.What} {
		*text = storable(*text, maxChangeText)
	}
	return nil
}

// Changes checks how many changes a call asks for.
func Changes(n int) error {
	if n < 1 || n > admin.MaxChanges {
		return invalid("n", "must be 1 to %d, got %d", admin.MaxChanges, n)
	}
	return nil
}
