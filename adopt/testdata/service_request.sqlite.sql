create table service_request (
    request_id text primary key not null,
    status text not null default 'PENDING' check (status in ('PENDING', 'COMPLETE')),
    locked_by text,
    locked_time text,
    attempts integer,
    requested_time text not null default (datetime('now')),
    completion_time text,
    request text not null,
    remark text
);
create index service_request_pending on service_request (requested_time, request_id) where status = 'PENDING';
