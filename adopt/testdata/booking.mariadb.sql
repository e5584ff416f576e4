create table booking (
    tenant varchar(20) not null,
    seq int not null,
    created datetime(3) not null default (utc_timestamp(3)),
    what text not null,
    state enum('open', 'busy', 'booked', 'refused') not null default 'open',
    ticket varchar(36),
    busy_until datetime(3),
    tries int unsigned not null default 0,
    remark text,
    primary key (tenant, seq),
    index booking_open (state, created, tenant, seq)
) character set utf8mb4 collate utf8mb4_general_ci partition by key (tenant) partitions 3;
