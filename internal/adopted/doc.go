// Package adopted makes SQL of a mapping: what package adopt runs, and what package adopt/advice
// judges. [Prepare] finds the table, has the database check the mapping's conditions, and returns a
// [Plan], which holds all statements of a store. What databases write differently is a [Dialect],
// and the statements are templates in sql/, a folder for each database.
package adopted
