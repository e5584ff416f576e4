create table cron_schedule (
    schedule_id int(10) unsigned not null auto_increment primary key,
    job_code varchar(255) not null default '0',
    status varchar(7) not null default 'pending',
    messages text default null,
    created_at timestamp not null default current_timestamp(),
    scheduled_at timestamp null default null,
    executed_at timestamp null default null,
    finished_at timestamp null default null,
    key CRON_SCHEDULE_JOB_CODE_STATUS_SCHEDULED_AT (job_code, status, scheduled_at),
    key CRON_SCHEDULE_SCHEDULED_AT_STATUS (scheduled_at, status)
) engine = InnoDB default charset = utf8mb3;
insert into cron_schedule (schedule_id, job_code, status, messages, created_at, scheduled_at, executed_at, finished_at) values
    (1, 'sales_clean_quotes', 'success', null, {tz -900}, {tz -800}, {tz -790}, {tz -780}),
    (2, 'indexer_reindex_all', 'running', null, {tz -900}, {tz -500}, {tz -30}, null), -- run by the product's cron
    (3, 'catalog_product_alert', 'error', 'Connection refused', {tz -900}, {tz -500}, {tz -490}, {tz -480}),
    (4, 'sitemap_generate', 'missed', 'Cron Job sitemap_generate is missed', {tz -9000}, {tz -8000}, null, null),
    (5, 'sales_clean_quotes', 'pending', null, {tz -900}, {tz -200}, null, null),
    (6, 'newsletter_send_all', 'pending', null, {tz -900}, {tz -100}, null, null),
    (7, 'newsletter_send_all', 'pending', null, {tz -900}, {tz 1200}, null, null), -- its time has not come
    (8, 'indexer_reindex_all', 'pending', null, {tz -900}, {tz -90}, null, null); -- the same job runs
