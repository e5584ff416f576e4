package sqlite_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/sqlite"
)

// moveMails makes jobs of up to 1,000 rows that wait, and marks these as moved, in one
// transaction. It returns how many there were.
func moveMails(ctx context.Context, db *sql.DB, store *sqlite.Store) (int, error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback()
	rows, err := tx.QueryContext(ctx, "update mails set state = 'moved' where id in (select id from mails where state = 'new' order by id limit 1000) returning id, body")
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	var jobs []dibs.NewJob
	for rows.Next() {
		var id int64
		var body string
		if err := rows.Scan(&id, &body); err != nil {
			return 0, err
		}
		jobs = append(jobs, dibs.NewJob{Queue: "mails", Kind: "mail", Payload: json.RawMessage(body), UniqueKey: fmt.Sprint("mails/", id)})
	}
	if err := rows.Err(); err != nil || len(jobs) == 0 {
		return 0, err
	}
	if _, err := store.SQLTx(tx).Enqueue(ctx, jobs); err != nil {
		return 0, err
	}
	return len(jobs), tx.Commit()
}

// Rows of a table that served as a queue become jobs: each once, whatever fails on the way.
func ExampleStore_SQLTx_moveRows() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "dibs")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store, err := sqlite.Open(ctx, filepath.Join(dir, "shop.db"), sqlite.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	_, err = store.DB().ExecContext(ctx, `create table mails (id integer primary key, body text, state text);
		insert into mails (body, state) values ('{"text":"hello"}', 'new'), ('{"text":"gone out"}', 'sent'), ('{"text":"good bye"}', 'new')`)
	if err != nil {
		log.Fatal(err)
	}

	for {
		n, err := moveMails(ctx, store.DB(), store)
		if err != nil {
			log.Fatal(err)
		}
		if n == 0 {
			break
		}
		fmt.Println(n, "rows moved")
	}
	stats, err := store.Stats(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(stats[0].Waiting, "jobs wait")
	// Output:
	// 2 rows moved
	// 2 jobs wait
}
