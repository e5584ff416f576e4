create table task_result (
    id integer not null primary key autoincrement,
    task_id varchar(255) not null unique,
    task_name varchar(255),
    task_kwargs text,
    status varchar(50) not null default 'PENDING',
    worker varchar(100),
    result text,
    traceback text,
    remark text,
    date_created datetime not null default (strftime('%Y-%m-%d %H:%M:%f', 'now')),
    date_started datetime,
    date_done datetime not null default (strftime('%Y-%m-%d %H:%M:%f', 'now'))
);
create index task_result_created on task_result (date_created);
create index task_result_status on task_result (status);
