create table message (id int unsigned primary key, topic varchar(255) not null, body mediumtext) character set latin1;
create table message_status (
    id bigint unsigned auto_increment primary key,
    queue_id int unsigned not null default 1,
    message_id int unsigned not null,
    topic varchar(255),
    remark text,
    updated_at timestamp(3) not null default current_timestamp(3),
    status smallint unsigned not null default 2,
    number_of_trials int unsigned not null default 0,
    unique (queue_id, message_id),
    index message_status_updated (status, updated_at),
    foreign key (message_id) references message (id) on delete cascade
) character set latin1;
insert into message (id, topic) values (1, 'stock');
