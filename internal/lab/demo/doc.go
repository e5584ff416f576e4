// Package demo runs the demonstration behind "dibs demo": it enqueues a mixed
// load, has several worker processes run it, kills one of them while it holds
// jobs, and then judges from recorded history whether every promise was kept.
//
// The worker processes do not report success. Package history records their calls of the
// database and the answers. The verdict ([Judge]) reads these records and the database
// afterwards, and knows nothing of how the queue works.
package demo
