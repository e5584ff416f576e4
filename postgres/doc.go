// Package postgres keeps dibs' jobs in PostgreSQL, version 13 and later.
//
// The statements are in sql/, one per file; each says why it is correct when many
// run at once. docs/design/0001-storage.md explains the tables.
//
// Behind a transaction pooler such as pgbouncer set [Options.Pooler].
package postgres
