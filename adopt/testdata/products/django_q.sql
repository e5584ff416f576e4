create table django_q_ormq (
    id {serial},
    key varchar(100) not null,
    payload text not null,
    lock {django}
);
insert into django_q_ormq (id, key, payload, lock) values
    (1, 'default', 'gAWVLQAAAAAAAAB9lA:1qX2Zf:c2ln', {django -900}),
    (2, 'default', 'gAWVLQAAAAAAAAB9lB:1qX2Zf:c2ln', {django -5}), -- locked by the product's cluster
    (3, 'default', 'gAWVLQAAAAAAAAB9lC:1qX2Zf:c2ln', {django -800}),
    (4, 'reports', 'gAWVLQAAAAAAAAB9lD:1qX2Zf:c2ln', {django -700});
