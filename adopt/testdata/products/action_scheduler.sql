create table wp_actionscheduler_actions (
    action_id {serial},
    hook varchar(191) not null,
    status varchar(20) not null,
    scheduled_date_gmt {utc},
    scheduled_date_local {utc},
    priority smallint not null default 10,
    args varchar(191),
    schedule text,
    group_id bigint not null default 0,
    attempts integer not null default 0,
    last_attempt_gmt {utc},
    last_attempt_local {utc},
    claim_id bigint not null default 0,
    extended_args varchar(8000)
);
create index hook_status_scheduled_date_gmt on wp_actionscheduler_actions (hook, status, scheduled_date_gmt);
create index status_scheduled_date_gmt on wp_actionscheduler_actions (status, scheduled_date_gmt);
create index claim_id_status_priority_scheduled_date_gmt on wp_actionscheduler_actions (claim_id, status, priority, scheduled_date_gmt);
insert into wp_actionscheduler_actions (action_id, hook, status, scheduled_date_gmt, args, group_id, attempts, last_attempt_gmt, claim_id) values
    (1, 'woocommerce_run_update', 'complete', {utc -900}, '[]', 2, 1, {utc -890}, 7),
    (2, 'wc_admin_daily', 'in-progress', {utc -500}, '[]', 0, 1, {utc -20}, 9), -- run by the product's queue runner
    (3, 'wc_admin_daily', 'pending', {utc -500}, '[3]', 0, 0, null, 9), -- claimed by the product's queue runner
    (4, 'woocommerce_deliver_webhook', 'failed', {utc -900}, '[4]', 2, 1, {utc -880}, 7),
    (5, 'woocommerce_deliver_webhook', 'canceled', {utc -900}, '[5]', 2, 0, null, 0),
    (6, 'woocommerce_deliver_webhook', 'pending', {utc -100}, '[6]', 2, 0, null, 0),
    (7, 'wc_admin_daily', 'pending', {utc -90}, '[7]', 0, 0, null, 0),
    (8, 'wc_admin_daily', 'pending', {utc 7200}, '[8]', 0, 0, null, 0),
    (9, 'woocommerce_deliver_webhook', 'in-progress', {utc -500}, '[9]', 2, 1, {utc -30}, 9),
    (10, 'woocommerce_deliver_webhook', 'in-progress', {utc -500}, '[10]', 2, 1, {utc -25}, 9);
