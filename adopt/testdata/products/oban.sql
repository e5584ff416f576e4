create type oban_job_state as enum ('available', 'scheduled', 'executing', 'retryable', 'completed', 'discarded', 'cancelled');
create table oban_jobs (
    id {serial},
    state oban_job_state not null default 'available',
    queue text not null default 'default',
    worker text not null,
    args jsonb not null default '{}',
    errors jsonb[] not null default array[]::jsonb[],
    attempt integer not null default 0,
    max_attempts integer not null default 20,
    inserted_at timestamp not null default timezone('UTC', now()),
    scheduled_at timestamp not null default timezone('UTC', now()),
    attempted_at timestamp,
    completed_at timestamp,
    attempted_by text[],
    discarded_at timestamp,
    priority integer not null default 0,
    tags text[] default array[]::text[],
    meta jsonb default '{}',
    cancelled_at timestamp,
    constraint attempt_range check (attempt between 0 and max_attempts),
    constraint positive_max_attempts check (max_attempts > 0),
    constraint queue_length check (char_length(queue) > 0 and char_length(queue) < 128),
    constraint worker_length check (char_length(worker) > 0 and char_length(worker) < 128),
    constraint non_negative_priority check (priority >= 0)
);
create index oban_jobs_state_queue_priority_scheduled_at_id_index on oban_jobs (state, queue, priority, scheduled_at, id);
create index oban_jobs_args_index on oban_jobs using gin (args);
insert into oban_jobs (id, state, worker, args, attempt, max_attempts, inserted_at, scheduled_at, attempted_at, completed_at, attempted_by, discarded_at, cancelled_at) values
    (1, 'available', 'Shop.Ship', '{"order": 1}', 0, 20, {utc -600}, {utc -600}, null, null, null, null, null),
    (2, 'executing', 'Shop.Ship', '{"order": 2}', 1, 20, {utc -500}, {utc -500}, {utc -20}, null, '{web@host,6f1b}', null, null), -- run by the product's node
    (3, 'completed', 'Shop.Ship', '{"order": 3}', 1, 20, {utc -400}, {utc -400}, {utc -390}, {utc -380}, '{web@host,6f1b}', null, null),
    (4, 'retryable', 'Shop.Mail', '{"to": "ann"}', 2, 3, {utc -300}, {utc 7200}, {utc -200}, null, '{web@host,6f1b}', null, null),
    (5, 'retryable', 'Shop.Mail', '{"to": "bob"}', 2, 3, {utc -300}, {utc -60}, {utc -200}, null, '{web@host,6f1b}', null, null), -- one attempt is left
    (6, 'scheduled', 'Shop.Mail', '{"to": "cid"}', 0, 20, {utc -200}, {utc 3600}, null, null, null, null, null),
    (7, 'discarded', 'Shop.Mail', '{"to": "dan"}', 3, 3, {utc -900}, {utc -900}, {utc -800}, null, '{web@host,6f1b}', {utc -790}, null),
    (8, 'cancelled', 'Shop.Mail', '{"to": "eve"}', 0, 20, {utc -900}, {utc -900}, null, null, null, null, {utc -700}),
    (9, 'available', 'Shop.Ship', '{"order": 9}', 0, 1, {utc -100}, {utc -100}, null, null, null, null, null),
    (10, 'executing', 'Shop.Ship', '{"order": 10}', 1, 1, {utc -500}, {utc -500}, {utc -30}, null, '{web@host,6f1b}', null, null);
