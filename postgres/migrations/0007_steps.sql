-- What the attempts of jobs have done, one row for each step.
-- Compatible with programs that know version 1.

create table dibs.step (
    job     bigint not null, -- live or finished
    name    text collate "C" not null,
    done_at timestamptz not null default clock_timestamp(),
    value   text not null, -- JSON
    primary key (job, name)
) with (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_cost_delay = 0
);
do $$
begin
    alter table dibs.step alter value set compression lz4;
exception when feature_not_supported then
    null;
end
$$;

-- True once the job has a step; null before, which takes no place in a row. A finish that keeps no job deletes the
-- steps of those jobs alone.
alter table dibs.job add column stepped boolean;

-- As in 0002, but a job that becomes a new one has no steps, and one that waits for others goes on to do so (replace.sql).
create or replace function dibs.change_holder(holder bigint, becomes dibs.new_job, starts timestamptz, at timestamptz) returns void
language plpgsql as $$
#variable_conflict use_column
declare
    stepped boolean; -- the job that goes has steps
begin
    select j.stepped
    into stepped
    from dibs.job j
    where j.id = holder and j.token is null;
    if (becomes).kind is not null and stepped then
        delete from dibs.step s where s.job = holder;
    end if;
    with meant as materialized (
        select
            j.id,
            j.gate as old_gate,
            j.group_key as old_group,
            (becomes).kind is not null as whole,
            octet_length((becomes).payload) + coalesce(octet_length((becomes).metadata), 0) >= 512 as wide,
            g.group_key,
            q.max_attempts as attempts,
            j.gate = 0 and coalesce(q.strict, false) and j.attempt > 0 and g.group_key = j.group_key as keeps,
            starts is null as stays,
            case when starts is null then j.run_at else greatest(starts, at) end as run_at
        from dibs.job j
        left join dibs.queue q on q.name = j.queue
        cross join lateral (
            select case when (becomes).kind is not null then (becomes).group_key else j.group_key end as group_key
        ) g
        where j.id = holder
    ), changed as (
        update dibs.job j
        set
            kind = case when m.whole then (becomes).kind else j.kind end,
            payload = case when not m.whole then j.payload when not m.wide then (becomes).payload end,
            metadata = case when not m.whole then j.metadata when not m.wide then (becomes).metadata end,
            priority = case when m.whole then (becomes).priority else j.priority end,
            max_attempts = case when m.whole then coalesce((becomes).max_attempts, m.attempts, 25) else j.max_attempts end,
            excused = case when m.whole then j.attempt else j.excused end,
            stepped = case when m.whole then null else j.stepped end,
            group_key = m.group_key,
            run_at = m.run_at,
            gate = case when m.old_gate = 5 then 5 when m.group_key is null or m.keeps then 0 when m.run_at <= at then 1 else 2 end,
            returned = j.returned or m.stays
        from meant m
        where j.id = m.id and j.token is null
        returning j.id, j.queue, j.group_key, j.gate, m.whole, m.wide, m.old_gate, m.old_group
    ), narrow as (
        delete from dibs.payload p
        using changed c
        where c.whole and not c.wide and p.id = c.id
    ), wide as (
        insert into dibs.payload (id, payload, metadata)
        select c.id, (becomes).payload, (becomes).metadata
        from changed c
        where c.whole and c.wide
        on conflict (id) do update
        set
            payload = excluded.payload,
            metadata = excluded.metadata
    ), woken as (
        insert into dibs.wake (queue, group_key)
        select distinct c.queue, g.group_key
        from changed c
        cross join lateral unnest(array[c.group_key, c.old_group]) as g (group_key)
        where g.group_key is not null
    ), listed as (
        insert into dibs.wake_list (queue, groups)
        select c.queue, array[c.group_key]
        from changed c
        left join dibs.queue q on q.name = c.queue
        where c.group_key is not null and coalesce(q.grouped, false) = false
    )
    insert into dibs.tally (queue, waiting, blocked)
    select c.queue, - c.n, c.n
    from (
        select queue, count(*) filter (where gate in (1, 5)) - count(*) filter (where old_gate in (1, 5)) as n
        from changed
        group by queue
    ) c
    where c.n <> 0;
    perform dibs.tell(j.queue, j.group_key is not null and not coalesce(q.grouped, false))
    from dibs.job j
    left join dibs.queue q on q.name = j.queue
    where j.id = holder;
end
$$;
