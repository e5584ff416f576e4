package cmdline

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/dibs-queue/dibs"
)

// MaxRecord limits the memory for one record.
const MaxRecord = dibs.MaxPayloadLimit + 1<<20

var ErrTooLong = fmt.Errorf("is longer than %d bytes", MaxRecord)

// Input is buffered input. Its budget limits the size of a record for readers without a
// limit of their own.
type Input struct {
	*bufio.Reader
	Budget *budget
}

func NewInput(r io.Reader) *Input {
	b := &budget{r: r, Remaining: math.MaxInt}
	return &Input{Reader: bufio.NewReaderSize(b, 64<<10), Budget: b}
}

// budget reads up to a number of bytes, which its owner can raise.
type budget struct {
	r         io.Reader
	Remaining int
}

func (b *budget) Read(p []byte) (int, error) {
	if b.Remaining <= 0 {
		return 0, ErrTooLong
	}
	n, err := b.r.Read(p[:min(len(p), b.Remaining)])
	b.Remaining -= n
	return n, err
}

// ReadLine returns the next line without its line end, or io.EOF. It skips the rest of a
// line that is too long.
func ReadLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	long := false
	for {
		part, err := r.ReadSlice('\n')
		if long = long || len(line)+len(part) > MaxRecord; !long {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(line) == 0 && !long:
			return nil, io.EOF
		case err != nil && !errors.Is(err, io.EOF):
			return nil, err
		case long:
			return nil, ErrTooLong
		}
		line = bytes.TrimSuffix(line, []byte("\n"))
		return bytes.TrimSuffix(line, []byte("\r")), nil
	}
}

// Interruptible reads from r until ctx ends, even while a read of a terminal or a pipe
// blocks.
func Interruptible(ctx context.Context, r io.Reader) io.Reader {
	out, in := io.Pipe()
	context.AfterFunc(ctx, func() { in.CloseWithError(ctx.Err()) })
	go func() {
		_, err := io.Copy(in, r)
		in.CloseWithError(err)
	}()
	return out
}
