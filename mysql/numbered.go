package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/dibs-queue/dibs"
)

// conn runs the files of sql/. It gives the numbered parameters of a statement to the driver in the order in which
// they stand there, and runs the parts of a file one after the other.
type conn struct {
	dibs.SQLTx
	joined joining
}

// joining says how the statements of a file go to the server.
type joining int

const (
	apart    joining = iota // one after the other: callers' connections
	inPacket                // in one packet
	// in one block, to a node of a cluster: if a packet's transaction is rolled back for another node's, the rest of the packet runs
	// outside of it
	inBlock
)

// part is one statement of a file, as the driver takes it.
type part struct {
	text  string
	order []parameter
}

// parameter is the place of an argument, and what is added to it.
type parameter struct {
	place int
	plus  int64
}

// statement is a file of sql/ as it is run.
type statement struct {
	parts []part
	whole part // all parts as one text
	block part // the same as a block
	count part // the same as a block that returns how many rows the last part has changed
}

// then stands between the statements of a file. The last one returns the rows.
const then = "\n-- then\n"

var (
	numbered = regexp.MustCompile(`\?([0-9]*)([+-][0-9]+)?`)
	parsed   sync.Map // statements by the texts of their files
)

func parse(text string) *statement {
	if s, ok := parsed.Load(text); ok {
		return s.(*statement)
	}
	s := &statement{}
	for one := range strings.SplitSeq(text, then) {
		s.parts = append(s.parts, parsePart(one))
	}
	texts := make([]string, len(s.parts))
	for i, p := range s.parts {
		texts[i] = p.text
		s.whole.order = append(s.whole.order, p.order...)
	}
	s.whole.text = strings.Join(texts, ";\n")
	if s.block = s.whole; len(texts) > 1 {
		s.block.text = "begin not atomic\n" + s.whole.text + ";\nend"
		s.count = part{"begin not atomic\n" + s.whole.text + ";\nselect row_count();\nend", s.whole.order}
	}
	parsed.Store(text, s)
	return s
}

// parsePart finds the parameters of a statement. One without a number has the number after the highest before it.
func parsePart(text string) (p part) {
	last := 0
	p.text = numbered.ReplaceAllStringFunc(text, func(found string) string {
		m := numbered.FindStringSubmatch(found)
		n, err := strconv.Atoi(m[1])
		if err != nil {
			n = last + 1
		}
		last = max(last, n)
		plus, _ := strconv.ParseInt(m[2], 10, 64)
		p.order = append(p.order, parameter{n - 1, plus})
		return "?"
	})
	return p
}

// args are the arguments of a part in the order of the text.
func (p part) args(args []any) []any {
	all := make([]any, len(p.order))
	for i, at := range p.order {
		all[i] = args[at.place]
		if at.plus == 0 {
			continue
		}
		switch n := all[i].(type) {
		case int:
			all[i] = int64(n) + at.plus
		case int64:
			all[i] = n + at.plus
		}
	}
	return all
}

// lead runs all parts but the last, which it returns.
func (c conn) lead(ctx context.Context, text string, args []any) (part, error) {
	s := parse(text)
	switch c.joined {
	case inPacket:
		return s.whole, nil
	case inBlock:
		return s.block, nil
	}
	last := len(s.parts) - 1
	for _, p := range s.parts[:last] {
		if _, err := c.SQLTx.ExecContext(ctx, p.text, p.args(args)...); err != nil {
			return part{}, err
		}
	}
	return s.parts[last], nil
}

func (c conn) ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error) {
	if s := parse(text); c.joined == inBlock && len(s.parts) > 1 {
		return counted(ctx, c.SQLTx, s.count.text, s.count.args(args))
	}
	p, err := c.lead(ctx, text, args)
	if err != nil {
		return nil, err
	}
	return c.SQLTx.ExecContext(ctx, p.text, p.args(args)...)
}

func (c conn) QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	p, err := c.lead(ctx, text, args)
	if err != nil {
		return nil, err
	}
	return c.SQLTx.QueryContext(ctx, p.text, p.args(args)...)
}

// counted runs a block that returns how many rows it has changed: the server's own count is of all its statements.
func counted(ctx context.Context, tx dibs.SQLTx, text string, args []any) (sql.Result, error) {
	rows, err := tx.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var n int64
	for more := true; more; more = rows.NextResultSet() {
		for rows.Next() {
			if err := rows.Scan(&n); err != nil {
				return nil, err
			}
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	return driver.RowsAffected(n), rows.Close()
}
