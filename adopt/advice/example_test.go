package advice_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"

	"github.com/dibs-queue/dibs/adopt/advice"
	_ "modernc.org/sqlite"
)

// Names tell Propose what columns mean. Check says what the mapping is worth.
func ExamplePropose() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "adopt-")
	must(err)
	defer os.RemoveAll(dir)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "shop.db"))
	must(err)
	defer db.Close()
	_, err = db.Exec(`create table mails (id integer primary key, body text not null, claim_token text, locked_until text,
		attempts integer not null default 0, sent_at text);
		insert into mails (body) values ('hello')`)
	must(err)

	mapping, _, err := advice.Propose(ctx, db, "mails")
	must(err)
	fmt.Println("unfinished:", mapping.Unfinished)
	fmt.Println("token:", mapping.Claim.Token, "timeout:", mapping.Claim.Timeout, "attempts:", mapping.Claim.Attempts)
	findings, err := advice.Check(ctx, db, mapping)
	must(err)
	for _, f := range findings {
		if f.Severity == advice.SeverityError {
			fmt.Println(f.Field, f.Text)
		}
	}
	// Output:
	// unfinished: sent_at is null
	// token: claim_token timeout: locked_until attempts: attempts
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
