create table retrieval (
    retrieval_id integer primary key,
    priority integer not null default 255,
    available_date text not null default (datetime('now')),
    mark text,
    server_name text,
    attempts integer not null default 0,
    attempt_start text,
    attempt_end text,
    timeout_date text,
    success boolean,
    document json not null,
    remark text
);
create index retrieval_open on retrieval (priority, available_date, retrieval_id) where success is null and mark is null;
create index retrieval_running on retrieval (timeout_date) where success is null and mark is not null;
