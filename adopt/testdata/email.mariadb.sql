create table email (
    id int auto_increment primary key,
    recipient text not null,
    subject text not null,
    body text,
    remark text,
    created_at datetime(3) not null default (utc_timestamp(3)),
    sent_at datetime(3),
    index email_open (sent_at, created_at)
);
