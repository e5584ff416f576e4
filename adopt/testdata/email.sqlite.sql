create table email (
    id integer primary key,
    recipient text not null,
    subject text not null,
    body text,
    remark text,
    created_at text not null default (strftime('%Y-%m-%d %H:%M:%f', 'now')),
    sent_at text
);
