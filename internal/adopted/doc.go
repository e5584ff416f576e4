// Package adopted makes SQL from a mapping: package adopt runs it, and package adopt/advice judges
// it. [Prepare] finds the table, lets the database check the mapping's conditions, and returns a
// [Plan] with all statements of a store. A [Dialect] holds what databases write differently. The
// statements are templates in sql/, which has a folder for each database.
package adopted
