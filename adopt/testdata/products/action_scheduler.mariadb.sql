create table wp_actionscheduler_actions (
    action_id bigint(20) unsigned not null auto_increment primary key,
    hook varchar(191) not null,
    status varchar(20) not null,
    scheduled_date_gmt datetime default '0000-00-00 00:00:00',
    scheduled_date_local datetime default '0000-00-00 00:00:00',
    priority tinyint(3) unsigned not null default 10,
    args varchar(191) default null,
    schedule longtext default null,
    group_id bigint(20) unsigned not null default 0,
    attempts int(11) not null default 0,
    last_attempt_gmt datetime default '0000-00-00 00:00:00',
    last_attempt_local datetime default '0000-00-00 00:00:00',
    claim_id bigint(20) unsigned not null default 0,
    extended_args varchar(8000) default null,
    key hook_status_scheduled_date_gmt (hook(163), status, scheduled_date_gmt),
    key status_scheduled_date_gmt (status, scheduled_date_gmt),
    key scheduled_date_gmt (scheduled_date_gmt),
    key args (args),
    key group_id (group_id),
    key last_attempt_gmt (last_attempt_gmt),
    key claim_id_status_priority_scheduled_date_gmt (claim_id, status, priority, scheduled_date_gmt)
) engine = InnoDB default charset = utf8mb4 collate = utf8mb4_unicode_520_ci;
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
