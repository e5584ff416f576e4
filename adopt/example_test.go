package adopt_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/adopt/mapping"
)

// Order is a row of the table orders.
type Order struct {
	Customer string `json:"customer"`
}

var shipped = make(chan string, 1)

func ship(_ context.Context, o Order) error {
	shipped <- o.Customer
	return nil
}

func shipOrders(ctx context.Context, db *sql.DB) error {
	m, err := mapping.Read("orders.yaml")
	if err != nil {
		return err
	}
	store, err := adopt.Open(ctx, db, m)
	if err != nil {
		return err
	}
	worker := &dibs.Worker{Store: store, Queue: store.Queue()}
	dibs.Handle(worker, store.Queue(), func(ctx context.Context, job *dibs.Job[Order]) error {
		return ship(ctx, job.Payload) // nil: completed; an error: it waits again, or is dead after the last attempt
	})
	return worker.Run(ctx)
}

func Example() {
	dir, err := os.MkdirTemp("", "adopt-")
	must(err)
	defer os.RemoveAll(dir)
	home, err := os.Getwd()
	must(err)
	must(os.Chdir(dir))
	defer func() { must(os.Chdir(home)) }()
	must(os.WriteFile("orders.yaml", []byte(`
table: orders
id: id
unfinished: done = false
side_table: true
completed: {set: {done: true}}
`), 0o600))
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "shop.db"))
	must(err)
	defer db.Close()
	_, err = db.Exec(`create table orders (id integer primary key, customer text, done boolean not null default false);
		insert into orders (customer) values ('Ann')`)
	must(err)

	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- shipOrders(ctx, db) }()
	fmt.Println(<-shipped)
	stop()
	must(<-ended)
	var done bool
	must(db.QueryRow("select done from orders").Scan(&done))
	fmt.Println(done)
	// Output:
	// Ann
	// true
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
