create table service_request (
    request_id char(36) character set ascii primary key,
    status varchar(10) not null default 'PENDING' check (status in ('PENDING', 'COMPLETE')),
    locked_by varchar(30),
    locked_time datetime,
    attempts int,
    requested_time datetime(6) not null default (utc_timestamp(6)),
    completion_time datetime,
    request text not null,
    remark text,
    index service_request_pending (status, locked_by, requested_time, request_id)
);
