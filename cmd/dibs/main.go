// Command dibs is a work queue in SQLite or PostgreSQL: it enqueues jobs, runs a
// program for each, and shows and changes what is queued. See 'dibs help'.
package main

import "github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"

func main() { cmdline.Main(newRoot) }
