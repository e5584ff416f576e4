// Package adopt works on a table that already exists, such as another program's queue.
// Its rows may also just have a status, or a date that says when they were processed.
// A mapping says what the columns mean; see package adopt/mapping.
// [Open] returns a store on the table, for a dibs.Worker.
//
//	m, err := mapping.Read("mapping.yaml")
//	store, err := adopt.Open(ctx, db, m)
//	w := &dibs.Worker{Store: store, Queue: store.Queue()}
//
// Three things decide what a table can promise; package adopt/advice reports them:
//
//   - how a claim is fenced: by a token column; by the exact values that the claim
//     wrote into the columns for start, worker and attempts; or by the side table
//     dibs_adopted, which dibs creates;
//   - whether a claim ends by itself when its worker is killed: it does with a column
//     for its end, a column for its start, or the side table;
//   - whether attempts are counted and errors kept: in columns or the side table.
//
// Other programs can go on using the table. If they finish, change or delete a row while a
// worker holds it, the worker has lost its lease: Finish returns dibs.ErrLeaseLost and
// changes nothing.
//
// Only the mapping becomes part of SQL: names are quoted, and the database parses each
// condition as one expression before its first use. Everything else is a parameter.
package adopt
