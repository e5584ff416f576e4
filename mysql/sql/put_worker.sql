-- Purpose: write a worker's entry of the register.
-- Parameters: ?1 id, ?2 name, ?3 host, ?4 pid, ?5 version, ?6 queues and ?7 kinds, JSON
--   arrays, ?7 null for all, ?8 concurrency, ?9 state, ?10 now.
-- Columns out: none.
-- Concurrency: each worker writes its own row.
insert into dibs_worker (id, name, host, pid, version, queues, kinds, concurrency, state, since, seen_at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?10)
on duplicate key update
  queues = values(queues),
  kinds = values(kinds),
  concurrency = values(concurrency),
  state = values(state),
  seen_at = values(seen_at)
