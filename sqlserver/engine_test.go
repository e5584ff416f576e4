package sqlserver

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	mssql "github.com/microsoft/go-mssqldb"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

func enqueueOne(ctx context.Context, s *Store) error {
	_, err := s.Enqueue(ctx, []dibs.NewJob{{Queue: "q", Kind: "k"}})
	return err
}

// counted is how many requests of a kind were sent.
func counted(events []event, what string) (n int) {
	for _, e := range events {
		if e.what == what {
			n++
		}
	}
	return n
}

func TestATransactionThatTheServerHasRolledBackIsBegunAgain(t *testing.T) {
	t.Parallel()
	for _, number := range []int32{codeDeadlock, codeLockWait} {
		s, r := recorded(t, answersOf())
		r.fail = func(name string, n int) error {
			if name == "tally" && n <= 2 {
				return mssql.Error{Number: number, Message: "again"}
			}
			return nil
		}
		if err := enqueueOne(t.Context(), s); err != nil {
			t.Errorf("%d: %v", number, err)
		}
		if all := r.take(); counted(all, "begin") != 3 || counted(all, "rollback") != 2 || counted(all, "commit") != 1 {
			t.Errorf("%d: it has sent %v", number, all)
		}
		r.fail = func(name string, _ int) error {
			if name == "tally" {
				return mssql.Error{Number: number, Message: "again"}
			}
			return nil
		}
		if err := enqueueOne(t.Context(), s); !errors.Is(err, dibs.ErrUnavailable) {
			t.Errorf("%d: %v", number, err)
		}
		if n := counted(r.take(), "begin"); n != repeats {
			t.Errorf("%d: it was begun %d times, want %d", number, n, repeats)
		}
	}
}

// A commit whose answer is lost may have taken place. One that the driver has not sent, as the server had ended the transaction, has
// not.
func TestAnUnknownCommitSaysSo(t *testing.T) {
	t.Parallel()
	const unknown = "it is unknown whether the call took effect"
	for _, c := range []struct {
		err error
		is  bool
	}{
		{io.ErrUnexpectedEOF, true},
		{&net.OpError{Op: "read", Err: errors.New("connection reset")}, true},
		{mssql.Error{Number: 9002, Message: "the log is full"}, true},
		{mssql.Error{Number: 0, Message: "the transaction was aborted by the server"}, false},
	} {
		s, r := recorded(t, answersOf())
		r.fail = func(name string, _ int) error {
			if name == "commit" {
				return c.err
			}
			return nil
		}
		err := enqueueOne(t.Context(), s)
		if err == nil || strings.Contains(err.Error(), unknown) != c.is || c.is != errors.Is(err, dibs.ErrUnavailable) {
			t.Errorf("the commit fails with %v: %v", c.err, err)
		}
		if n := counted(r.take(), "commit"); n != 1 {
			t.Errorf("the commit fails with %v: it was sent %d times", c.err, n)
		}
	}
}

// The context of a call may end while its transaction is open. Then it is rolled back, whatever the context says.
func TestACallThatIsCancelledEndsItsTransaction(t *testing.T) {
	t.Parallel()
	s, r := recorded(t, answersOf())
	ctx, cancel := context.WithCancel(t.Context())
	r.fail = func(name string, _ int) error {
		if name == "clock" {
			cancel()
			return ctx.Err()
		}
		return nil
	}
	if err := enqueueOne(ctx, s); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if all := r.take(); counted(all, "rollback") != 1 || counted(all, "commit") != 0 {
		t.Errorf("it has sent %v", all)
	}
}

// With xact_abort any error of a statement ends the caller's transaction. Its calls then say that it has ended, and do nothing.
func TestACallersTransactionThatTheServerHasEndedSaysSo(t *testing.T) {
	t.Parallel()
	s, r := recorded(t, answersOf())
	tx, err := s.DB().BeginTx(t.Context(), readCommitted)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() //nolint:errcheck // it has ended
	ended := false
	r.fail = func(name string, _ int) error {
		switch {
		case ended:
			return mssql.Error{Number: 0, Message: "the transaction was aborted by the server"}
		case name == "tally":
			ended = true
			return mssql.Error{Number: codeDeadlock, Message: "deadlock"}
		}
		return nil
	}
	in := s.SQLTx(tx)
	_, err = in.Enqueue(t.Context(), []dibs.NewJob{{Queue: "q", Kind: "k"}})
	if !errors.Is(err, sql.ErrTxDone) {
		t.Errorf("the call that the deadlock has ended: %v", err)
	}
	r.take()
	if _, err = in.Enqueue(t.Context(), []dibs.NewJob{{Queue: "q", Kind: "k"}}); !errors.Is(err, sql.ErrTxDone) {
		t.Errorf("the next call: %v", err)
	}
	if n := counted(r.take(), "enqueue"); n != 0 {
		t.Errorf("the next call has enqueued %d times", n)
	}
	if _, err = s.SQLTx(tx).Enqueue(t.Context(), []dibs.NewJob{{Queue: "q", Kind: "k"}}); !errors.Is(err, sql.ErrTxDone) {
		t.Errorf("a call of another Tx: %v", err)
	}
}

func TestACallersTransactionIsRefusedIfItsReadsWouldWaitOrBeOld(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		isolation, writable any
		identity            any
		says                string
	}{
		{int64(1), int64(1), "this", "READ UNCOMMITTED"},
		{int64(3), int64(1), "this", "REPEATABLE READ"},
		{int64(4), int64(1), "this", "SERIALIZABLE"},
		{int64(5), int64(1), "this", "SNAPSHOT"},
		{int64(2), int64(0), "this", "cannot be written"},
		{int64(2), int64(1), "that", "another database"},
		{int64(2), int64(1), nil, "another database"},
	} {
		answers := answersOf()
		answers["verify"][0] = append(answers["verify"][0][:0], c.isolation, c.writable, c.identity)
		s, r := recorded(t, answers)
		tx, err := s.DB().BeginTx(t.Context(), readCommitted)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.SQLTx(tx).Enqueue(t.Context(), []dibs.NewJob{{Queue: "q", Kind: "k"}})
		if !errors.Is(err, dibs.ErrInvalid) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v", c, err)
		}
		if all := r.take(); counted(all, "enqueue") != 0 || counted(all, "rollback transaction dibs_call") != 1 {
			t.Errorf("%v: it has sent %v", c, all)
		}
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
	}
	s, r := recorded(t, answersOf())
	r.fail = func(name string, _ int) error {
		if name == "verify" {
			return mssql.Error{Number: codeNoObject, Message: "Invalid object name 'dibs_identity'."}
		}
		return nil
	}
	tx, err := s.DB().BeginTx(t.Context(), readCommitted)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() //nolint:errcheck // it has done nothing
	if _, err = s.SQLTx(tx).Enqueue(t.Context(), []dibs.NewJob{{Queue: "q", Kind: "k"}}); !errors.Is(err, dibs.ErrInvalid) {
		t.Errorf("on a database without tables of dibs: %v", err)
	}
}

func TestErrorsAreClassifiedByTheirNumbers(t *testing.T) {
	t.Parallel()
	for number, want := range map[int32]error{
		codeDeadlock: dibs.ErrUnavailable, codeLockWait: dibs.ErrUnavailable, 40613: dibs.ErrUnavailable, 9002: dibs.ErrUnavailable, 4060: dibs.ErrUnavailable,
		229: dibs.ErrDenied, 18456: dibs.ErrDenied, 916: dibs.ErrDenied,
		codeNoObject: dibs.ErrSchema, codeNoColumn: dibs.ErrSchema, 2812: dibs.ErrSchema,
		3906: dibs.ErrUnavailable,
	} {
		given := fmt.Errorf("a call: %w", mssql.Error{Number: number, Message: "m"})
		got := classify(given)
		if !errors.Is(got, want) || code(got) != number {
			t.Errorf("%d is %v, want %v", number, got, want)
		}
		if again := classify(got); again.Error() != got.Error() {
			t.Errorf("%d, classified twice, is %v", number, again)
		}
	}
	var readOnly *checks.ReadOnlyError
	if !errors.As(classify(mssql.Error{Number: 3906}), &readOnly) {
		t.Error("a database that cannot be written is not told as such")
	}
	for _, number := range []int32{2601, 2627, 547, 8152, codeOptions} {
		if got := classify(mssql.Error{Number: number}); errors.Is(got, dibs.ErrUnavailable) || errors.Is(got, dibs.ErrSchema) || code(got) != number {
			t.Errorf("%d is %v", number, got)
		}
	}
	for _, lost := range []error{io.EOF, &net.OpError{Op: "dial", Err: errors.New("refused")}, mssql.StreamError{InnerError: io.EOF}} {
		if got := classify(lost); !errors.Is(got, dibs.ErrUnavailable) {
			t.Errorf("%v is %v", lost, got)
		}
	}
	for _, kept := range []error{nil, context.Canceled, context.DeadlineExceeded, errors.New("other")} {
		if got := classify(kept); !errors.Is(got, kept) || errors.Is(got, dibs.ErrUnavailable) {
			t.Errorf("%v is %v", kept, got)
		}
	}
}
