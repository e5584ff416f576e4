create table cron_schedule (
    schedule_id {serial},
    job_code varchar(255) not null default '0',
    status varchar(7) not null default 'pending',
    messages text,
    created_at {utc} not null default current_timestamp,
    scheduled_at {utc},
    executed_at {utc},
    finished_at {utc}
);
create index cron_schedule_job_code_status_scheduled_at on cron_schedule (job_code, status, scheduled_at);
create index cron_schedule_scheduled_at_status on cron_schedule (scheduled_at, status);
insert into cron_schedule (schedule_id, job_code, status, messages, created_at, scheduled_at, executed_at, finished_at) values
    (1, 'sales_clean_quotes', 'success', null, {utc -900}, {utc -800}, {utc -790}, {utc -780}),
    (2, 'indexer_reindex_all', 'running', null, {utc -900}, {utc -500}, {utc -30}, null), -- run by the product's cron
    (3, 'catalog_product_alert', 'error', 'Connection refused', {utc -900}, {utc -500}, {utc -490}, {utc -480}),
    (4, 'sitemap_generate', 'missed', 'Cron Job sitemap_generate is missed', {utc -9000}, {utc -8000}, null, null),
    (5, 'sales_clean_quotes', 'pending', null, {utc -900}, {utc -200}, null, null),
    (6, 'newsletter_send_all', 'pending', null, {utc -900}, {utc -100}, null, null),
    (7, 'newsletter_send_all', 'pending', null, {utc -900}, {utc 1200}, null, null), -- its time has not come
    (8, 'indexer_reindex_all', 'pending', null, {utc -900}, {utc -90}, null, null); -- the same job runs
