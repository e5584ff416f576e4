-- Purpose: forget that queues were new, once they have settings.
-- Parameters: $1 queues.
-- Columns out: none.
-- Concurrency: deletes only rows that name no group, so no admission loses one.
delete from dibs.wake_list
where queue = any ($1::text[]) and groups = '{}'
