create table inbox (
    id bigint auto_increment primary key,
    message text not null,
    processed bit(1) not null default false,
    remark text,
    index inbox_open (processed, id)
);
