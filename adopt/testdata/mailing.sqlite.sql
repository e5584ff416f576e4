create table mailing (
    id integer primary key,
    status text not null default 'new',
    started_at datetime,
    body text not null,
    remark text
);
create index mailing_open on mailing (id) where status in ('new', 'busy');
