package storetest_test

import (
	"fmt"
	"strings"

	"github.com/dibs-queue/dibs/storetest"
)

func ExampleTable() {
	fmt.Println(storetest.Table(storetest.PostgreSQL, storetest.SQLite))
	// Output:
	// | | PostgreSQL | SQLite |
	// |---|---|---|
	// | callers' own transactions | `*sql.Tx`, `pgx.Tx` | `*sql.Tx` |
	// | claims never wait for open transactions | yes | no: one writer at a time |
	// | wake-ups across processes | yes | no: they poll |
	// | workers on many machines | yes | no: processes of one machine |
}

// The suite is a list of sentences. One of them is run with -run TestStore/claim/none_due.
func ExampleNames() {
	for _, name := range storetest.Names() {
		if strings.HasPrefix(name, "claim/none") {
			fmt.Println(name)
		}
	}
	// Output:
	// claim/none due is not an error
}
