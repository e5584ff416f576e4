-- Purpose: forget that queues were new, once they have settings.
-- Parameters: $1 queues.
-- Columns out: none.
-- Concurrency: in a queue with groups, an admission deletes the rows; in others, they name no group.
delete from dibs.wake_list
where groups = '{}' and queue = any (array(
    select q.name
    from dibs.queue q
    where q.name = any ($1::text[]) and not q.grouped
))
