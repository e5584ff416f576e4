create table booking (
    tenant varchar(20) not null,
    seq integer not null,
    created text not null default (strftime('%Y-%m-%d %H:%M:%f', 'now')),
    what text not null,
    state varchar(10) not null default 'open',
    ticket varchar(36),
    busy_until text,
    tries integer not null default 0,
    remark text,
    primary key (tenant, seq)
) without rowid;
create index booking_open on booking (created, tenant, seq) where state in ('open', 'busy');
