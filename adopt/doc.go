// Package adopt works on a table that is already there: somebody else's queue, a
// status column, a date that says when a row was processed. A mapping says what its
// columns mean; see package adopt/mapping. [Open] gives a store on it, the same that a
// dibs.Worker takes.
//
//	m, err := mapping.Read("mapping.yaml")
//	store, err := adopt.Open(ctx, db, m)
//	w := &dibs.Worker{Store: store, Queue: store.Queue()}
//
// Three things decide what a table can promise; package adopt/advice says which of them hold:
//
//   - how a claim is fenced: by a token column; by the exact values that the claim
//     wrote into started-at, locked-by and attempts; or in a side table of ours,
//     dibs_adopted, keyed by table and id;
//   - whether a claim ends by itself when its worker is killed: with a timeout
//     column, a started-at column and a rule of so long, or the side table;
//   - whether attempts are counted and errors kept: in columns or the side table.
//
// Other programs go on using the table. A row that they finish, change or delete
// while it is held here is theirs: to finish it here is refused with
// dibs.ErrLeaseLost, and changes nothing.
//
// Nothing is ever made SQL but the mapping: identifiers are quoted, conditions are
// parsed by the database as one expression each before they are used, and
// everything else is a parameter.
package adopt
