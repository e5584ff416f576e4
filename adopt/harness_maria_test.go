package adopt_test

import (
	"context"
	"regexp"
	"strconv"
	"testing"
)

// makeMaria makes the harness' table on MariaDB.
func (h *harness) makeMaria(t testing.TB) {
	t.Helper()
	const table = `
create table work (
    id bigint auto_increment primary key,
    queue varchar(200) not null,
    kind varchar(200) not null,
    payload longtext not null,
    priority int not null,
    run_at datetime(6) not null,
    created_at datetime(6) not null,
    grp varchar(200),
    mark char(36),
    server varchar(200),
    started_at datetime(6),
    lease_end datetime(6),
    attempts int not null default 0,
    most int,
    status varchar(20),
    ended_at datetime(6),
    error text,
    failed_at datetime(6),
    result longtext,
    index work_open (queue, status, priority, run_at, id)
) character set utf8mb4 collate utf8mb4_unicode_ci`
	if _, err := h.db.Exec(table); err != nil {
		t.Fatal(err)
	}
}

var parameter = regexp.MustCompile(`\$(\d+)`)

// numbered is a statement whose parameters have numbers, and its arguments, as the driver of the database takes them.
func (h *harness) numbered(text string, args ...any) (string, []any) {
	if !h.maria {
		return text, args
	}
	return unnumbered(text, args...)
}

func unnumbered(text string, args ...any) (string, []any) {
	var ordered []any
	text = parameter.ReplaceAllStringFunc(text, func(found string) string {
		n, _ := strconv.Atoi(found[1:]) // no error: they are digits
		ordered = append(ordered, args[n-1])
		return "?"
	})
	return text, ordered
}

func (h *harness) exec(ctx context.Context, text string, args ...any) error {
	text, args = h.numbered(text, args...)
	_, err := h.db.ExecContext(ctx, text, args...)
	return err
}

// text is SQL for a value as text.
func (h *harness) text(expr string) string {
	if h.maria {
		return "convert(" + expr + " using utf8mb4)"
	}
	return "cast(" + expr + " as text)"
}

// meet notes that a job has a group: from then on the mappings have groups.
func (h *harness) meet(group string) {
	h.Lock()
	defer h.Unlock()
	if group == "" || h.grouped {
		return
	}
	h.grouped = true
	for queue := range h.version {
		h.version[queue]++
	}
}
