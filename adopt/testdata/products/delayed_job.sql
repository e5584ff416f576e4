create table delayed_jobs (
    id {serial},
    priority integer not null default 0,
    attempts integer not null default 0,
    handler text not null,
    last_error text,
    run_at {rails},
    locked_at {rails},
    failed_at {rails},
    locked_by varchar,
    queue varchar,
    created_at {rails} not null,
    updated_at {rails} not null
);
create index delayed_jobs_priority on delayed_jobs (priority, run_at);
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
