create table task_result (
    id int not null auto_increment primary key,
    task_id varchar(255) not null unique,
    task_name varchar(255),
    task_kwargs longtext,
    status varchar(50) not null default 'PENDING',
    worker varchar(100),
    result longtext,
    traceback longtext,
    remark longtext,
    date_created datetime(6) not null default (utc_timestamp(6)),
    date_started datetime(6),
    date_done datetime(6) not null default (utc_timestamp(6)),
    index task_result_created (date_created),
    index task_result_status (status)
) character set utf8mb4 collate utf8mb4_unicode_ci;
