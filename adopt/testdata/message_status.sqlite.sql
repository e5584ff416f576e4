create table message (id integer primary key, topic varchar(255) not null, body text);
create table message_status (
    id integer primary key,
    queue_id integer not null default 1,
    message_id integer not null references message (id) on delete cascade,
    topic varchar(255),
    remark text,
    updated_at timestamp not null default current_timestamp,
    status smallint not null default 2,
    number_of_trials integer not null default 0,
    unique (queue_id, message_id)
);
create index message_status_updated on message_status (status, updated_at);
insert into message (id, topic) values (1, 'stock');
