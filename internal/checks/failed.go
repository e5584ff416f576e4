package checks

// failure is an error of a store's call, named once: with the call that the user made.
type failure struct {
	op  string
	err error
}

func (e *failure) Error() string {
	if e.op == "" {
		return "dibs: " + e.err.Error()
	}
	return "dibs: " + e.op + ": " + e.err.Error()
}

func (e *failure) Unwrap() error { return e.err }

// Failed names the operation that failed with err, if it has a name. What it has named before, as the part of
// another operation, gets the name of that one instead. It is the only way to write
// "dibs: " before an error, so that nothing is written twice (tidy_test.go).
func Failed(op string, err error) error {
	if err == nil {
		return nil
	}
	for {
		inner, ok := any(err).(*failure) // what only holds one keeps its own words
		if !ok {
			return &failure{op, err}
		}
		err = inner.err
	}
}
