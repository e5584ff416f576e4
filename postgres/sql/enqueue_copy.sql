-- Purpose: insert a large batch of jobs without unique keys.
-- Parameters: none; the columns follow as rows in PostgreSQL's binary form (copy.go).
-- Columns out: none.
-- Concurrency: as enqueue.sql. Runs between enqueue_draw.sql and enqueue_count.sql, in
--   their transaction.
-- With 10,000 jobs it takes a third less of the server's CPU than enqueue.sql: rows go to
--   their page together, and no arrays are turned into rows first.
copy dibs.job (
    id,
    queue,
    kind,
    payload,
    metadata,
    priority,
    run_at,
    gate,
    max_attempts,
    group_key,
    created_at,
    flow,
    followed
) from stdin (format binary)
