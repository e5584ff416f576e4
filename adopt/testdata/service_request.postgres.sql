create table service_request (
    request_id uuid primary key,
    status varchar(10) not null default 'PENDING' check (status in ('PENDING', 'COMPLETE')),
    locked_by varchar(30),
    locked_time timestamptz(0),
    attempts integer,
    requested_time timestamptz not null default clock_timestamp(),
    completion_time timestamptz,
    request text not null,
    remark text
);
create index service_request_pending on service_request (requested_time, request_id) where status = 'PENDING';
