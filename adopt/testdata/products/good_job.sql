create table good_jobs (
    id uuid primary key default gen_random_uuid(),
    queue_name text,
    priority integer,
    serialized_params jsonb,
    scheduled_at timestamp(6),
    performed_at timestamp(6),
    finished_at timestamp(6),
    error text,
    created_at timestamp(6) not null,
    updated_at timestamp(6) not null,
    active_job_id uuid,
    concurrency_key text,
    cron_key text,
    retried_good_job_id uuid,
    cron_at timestamp(6),
    batch_id uuid,
    batch_callback_id uuid,
    is_discrete boolean,
    executions_count integer,
    job_class text,
    error_event smallint,
    labels text[],
    locked_by_id uuid,
    locked_at timestamp(6)
);
create index index_good_jobs_on_queue_name_and_scheduled_at on good_jobs (queue_name, scheduled_at) where finished_at is null;
create index index_good_job_jobs_for_candidate_lookup on good_jobs (priority, created_at) where finished_at is null;
insert into good_jobs (id, queue_name, priority, serialized_params, scheduled_at, performed_at, finished_at, error, created_at, updated_at, is_discrete, executions_count, job_class, locked_by_id, locked_at)
select ('00000000-0000-4000-8000-00000000000' || n)::uuid, 'default', 0, jsonb_build_object('job_class', class, 'arguments', jsonb_build_array(n)),
    {rails -600} + make_interval(secs => n) + later, performed, finished, error, {rails -600} + make_interval(secs => n), {rails -600}, true, executions, class, locker, case when locker is not null then performed end
from (values
    (1, 'ShipJob', interval '0', null::timestamp, null::timestamp, null, 0, null::uuid),
    (2, 'ShipJob', interval '0', {rails -20}, null, null, 1, '00000000-0000-4000-8000-0000000000ff'), -- run by the product's process
    (3, 'MailJob', interval '0', {rails -310}, {rails -300}, null, 1, null),
    (4, 'MailJob', interval '0', {rails -210}, {rails -200}, 'Net::ReadTimeout: it took too long', 5, null), -- discarded
    (5, 'MailJob', interval '2 hours', null, null, 'Net::ReadTimeout: it took too long', 2, null), -- retried later
    (6, 'ShipJob', interval '0', null, null, null, 0, null),
    (7, 'ShipJob', interval '0', {rails -30}, null, null, 1, '00000000-0000-4000-8000-0000000000ff')
) x (n, class, later, performed, finished, error, executions, locker);
