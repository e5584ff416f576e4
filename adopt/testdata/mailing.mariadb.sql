create table mailing (
    id int auto_increment primary key,
    status varchar(20) not null default 'new',
    started_at datetime(6),
    body text not null,
    remark text,
    index mailing_open (status, id)
);
