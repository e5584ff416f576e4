create table outbox (
    id {serial},
    aggregate_type varchar(100) not null,
    aggregate_id varchar(100) not null,
    event_type varchar(100) not null,
    payload {json} not null,
    created_at {tz} not null default current_timestamp,
    published_at {tz}
);
create index outbox_unpublished on outbox (created_at, id) where published_at is null;
insert into outbox (id, aggregate_type, aggregate_id, event_type, payload, created_at, published_at) values
    (1, 'order', '17', 'OrderPlaced', '{"order": 17}', {tz -900}, {tz -890}),
    (2, 'order', '18', 'OrderPlaced', '{"order": 18}', {tz -800}, {tz -790}),
    (3, 'order', '17', 'OrderPaid', '{"order": 17}', {tz -300}, null),
    (4, 'order', '17', 'OrderShipped', '{"order": 17}', {tz -200}, null),
    (5, 'order', '19', 'OrderPlaced', '{"order": 19}', {tz -100}, null);
