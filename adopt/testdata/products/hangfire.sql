create schema hangfire;
create table hangfire.job (
    id {serial},
    stateid bigint,
    statename text,
    invocationdata jsonb not null,
    arguments jsonb not null,
    createdat timestamptz not null,
    expireat timestamptz,
    updatecount integer not null default 0
);
create index ix_hangfire_job_statename on hangfire.job (statename);
create table hangfire.jobqueue (
    id {serial},
    jobid bigint not null,
    queue text not null,
    fetchedat timestamptz,
    updatecount integer not null default 0
);
create index ix_hangfire_jobqueue_jobidandqueue on hangfire.jobqueue (jobid, queue);
create index ix_hangfire_jobqueue_queueandfetchedat on hangfire.jobqueue (queue, fetchedat);
insert into hangfire.job (id, statename, invocationdata, arguments, createdat)
select n, case n when 2 then 'Processing' else 'Enqueued' end, '{"Type": "Shop.Orders, Shop", "Method": "Ship"}', jsonb_build_array(n), {tz -600} from generate_series(1, 5) n;
insert into hangfire.jobqueue (id, jobid, queue, fetchedat) values
    (1, 1, 'default', null),
    (2, 2, 'default', {tz -20}), -- fetched by the product's server
    (3, 3, 'default', null),
    (4, 4, 'reports', null),
    (5, 5, 'default', {tz -40});
