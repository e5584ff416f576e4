-- Purpose: insert the wide payloads of a large batch.
-- Parameters: none; the columns follow as rows in PostgreSQL's binary form (copy.go).
-- Columns out: none.
-- Concurrency: as enqueue_copy.sql, before which it runs.
copy dibs.payload (
    id,
    payload,
    metadata
) from stdin (format binary)
