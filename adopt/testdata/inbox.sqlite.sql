create table inbox (
    id integer primary key,
    message text not null,
    processed boolean not null default false,
    remark text
);
create index inbox_open on inbox (id) where not processed;
