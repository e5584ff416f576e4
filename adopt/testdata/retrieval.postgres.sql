create table retrieval (
    retrieval_id bigint generated always as identity primary key,
    priority smallint not null default 255,
    available_date timestamptz not null default now(),
    mark uuid,
    server_name varchar(40),
    attempts smallint not null default 0,
    attempt_start timestamptz,
    attempt_end timestamptz,
    timeout_date timestamptz,
    success boolean,
    document jsonb not null,
    remark text
);
create index retrieval_open on retrieval (priority, available_date, retrieval_id) where success is null and mark is null;
create index retrieval_running on retrieval (timeout_date) where success is null and mark is not null;
