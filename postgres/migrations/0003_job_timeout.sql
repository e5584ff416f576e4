-- A timeout of a queue's jobs, which operators can set while they run.
-- Compatible with programs that know version 1.

-- How long an attempt may run; 0: no limit. extend.sql tells the workers.
alter table dibs.queue
    add column job_timeout interval not null default '0',
    add constraint queue_job_timeout_is_0_to_10years check (job_timeout between '0' and '87600 hours');
