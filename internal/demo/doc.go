// Package demo runs the demonstration behind "dibs demo": it enqueues a mixed
// load, has several worker processes run it, kills one of them while it holds
// jobs, and then judges from recorded history whether every promise was kept.
//
// The worker processes do not report success; whatever they ask the database and are told
// is written down (package history). The verdict ([Judge]) reads those records and the
// database afterwards, and knows nothing of how the queue works.
package demo
