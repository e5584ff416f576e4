-- A rate that each group of a queue has, unless it has one of its own.
-- Compatible with programs that know version 1.

-- Starts of the jobs of each group. Admissions read step and slack, which package bucket explains.
alter table dibs.queue
    add column group_rate_n int not null default 0,
    add column group_rate_per interval not null default '0',
    add column group_rate_burst int not null default 0,
    add column group_step_ns bigint not null default 0,
    add column group_slack_ns bigint not null default 0,
    add constraint queue_group_rate_is_n_per_1s_to_31days_with_burst check (
        (group_rate_n = 0 and group_rate_burst >= 0 and group_step_ns = 0)
        or (group_rate_n between 1 and 1000000000 and group_rate_per between '1 second' and '744 hours' and group_rate_burst between 0 and 1000000000
            and group_step_ns > 0 and group_slack_ns >= 0)
    );

-- A row of dibs.rate with a group and n = 0 is that of a group with its queue's rate. Its step
-- and slack are copies. Admissions make it, and delete it when all is saved up again.
