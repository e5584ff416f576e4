create table retrieval (
    retrieval_id bigint auto_increment primary key,
    priority tinyint unsigned not null default 255,
    available_date datetime not null default (utc_timestamp()),
    mark uuid,
    server_name varchar(40),
    attempts int not null default 0,
    attempt_start datetime,
    attempt_end datetime,
    timeout_date datetime,
    success tinyint(1),
    document json not null,
    remark text,
    index retrieval_open (success, mark, priority, available_date, retrieval_id)
);
