package checks

// failure is an error with the name of the call in which it happened.
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

// Failed puts "dibs: " and the operation op, if not empty, before err. If err comes from
// Failed itself, op replaces the earlier operation. Only Failed writes "dibs: ", so no error
// has it twice (tidy_test.go).
func Failed(op string, err error) error {
	if err == nil {
		return nil
	}
	return &failure{op, Cause(err)}
}

// Cause returns err without what Failed put before it, for use in the text of another error.
func Cause(err error) error {
	for {
		inner, ok := any(err).(*failure) // an error that wraps a failure keeps its text
		if !ok {
			return err
		}
		err = inner.err
	}
}
