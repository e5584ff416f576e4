-- Purpose: give a group its own limit.
-- Parameters: $1 queue, $2 group, $3 places; 0 takes the limit away.
-- Columns out: none.
-- Concurrency: takes effect when the group is next admitted (wake_groups.sql).
with gone as (
    delete from dibs.group_limit
    where queue = $1 and group_key = $2 and $3::int = 0
)
insert into dibs.group_limit (queue, group_key, places)
select $1, $2, $3::int
where $3::int > 0
on conflict (queue, group_key) do update
set places = excluded.places
