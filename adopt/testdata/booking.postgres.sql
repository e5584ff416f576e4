create table booking (
    tenant varchar(20) not null,
    seq integer not null,
    created timestamptz not null default now(),
    what text not null,
    state varchar(10) not null default 'open',
    ticket varchar(36),
    busy_until timestamptz,
    tries integer not null default 0,
    remark text,
    primary key (tenant, seq)
);
create index booking_open on booking (created, tenant, seq) where state in ('open', 'busy');
