create table delayed_jobs (
    id bigint(20) not null auto_increment primary key,
    priority int(11) not null default 0,
    attempts int(11) not null default 0,
    handler text not null,
    last_error text default null,
    run_at datetime(6) default null,
    locked_at datetime(6) default null,
    failed_at datetime(6) default null,
    locked_by varchar(255) default null,
    queue varchar(255) default null,
    created_at datetime(6) not null,
    updated_at datetime(6) not null,
    key delayed_jobs_priority (priority, run_at)
) engine = InnoDB default charset = utf8mb4 collate = utf8mb4_general_ci;
insert into delayed_jobs (id, priority, attempts, handler, last_error, run_at, locked_at, failed_at, locked_by, created_at, updated_at) values
    (1, 0, 0, '--- !ruby/object:ShipJob
order: 1
', null, {rails -600}, null, null, null, {rails -600}, {rails -600}),
    (2, 0, 0, '--- !ruby/object:ShipJob
order: 2
', null, {rails -500}, {rails -20}, null, 'host:web1 pid:4711', {rails -500}, {rails -20}), -- locked by the product's worker
    (3, 0, 25, '--- !ruby/object:ShipJob
order: 3
', 'Net::ReadTimeout', {rails -400}, null, {rails -90}, null, {rails -900}, {rails -90}), -- failed for good
    (4, 0, 3, '--- !ruby/object:MailJob
to: ann
', 'Net::ReadTimeout', {rails 7200}, null, null, null, {rails -900}, {rails -300}), -- retried later
    (5, -10, 1, '--- !ruby/object:MailJob
to: bob
', 'Net::ReadTimeout', {rails -60}, null, null, null, {rails -300}, {rails -60}),
    (6, 0, 0, '--- !ruby/object:ShipJob
order: 6
', null, {rails -100}, null, null, null, {rails -100}, {rails -100});
