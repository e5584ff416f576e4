create table event (
    id uuid not null default gen_random_uuid(),
    created_at timestamptz not null default clock_timestamp(),
    data jsonb not null,
    taken_by text,
    taken_at timestamptz,
    attempts integer not null default 0,
    handled_at timestamptz,
    remark text,
    primary key (id, created_at)
) partition by range (created_at);
create table event_old partition of event for values from (minvalue) to ('2026-01-01 00:00:00+00');
create table event_january partition of event for values from ('2026-01-01 00:00:00+00') to ('2026-02-01 00:00:00+00');
create table event_rest partition of event default;
create index event_open on event (created_at, id) where handled_at is null;
