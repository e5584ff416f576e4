-- Purpose: tell whether jobs stand in the inbox.
-- Parameters: ?1 a JSON array of ids of rows to leave out.
-- Columns out: 1 if so, else 0.
-- Concurrency: a plain read: it sees no rows of transactions that are open, and waits for none.
select exists (
  select 1
  from dibs_inbox force index (primary)
  where not json_contains(?1, cast(id as char))
)
