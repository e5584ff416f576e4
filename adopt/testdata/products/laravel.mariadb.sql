create table jobs (
    id bigint(20) unsigned not null auto_increment primary key,
    queue varchar(255) not null,
    payload longtext not null,
    attempts tinyint(3) unsigned not null,
    reserved_at int(10) unsigned default null,
    available_at int(10) unsigned not null,
    created_at int(10) unsigned not null,
    key jobs_queue_index (queue)
) engine = InnoDB default charset = utf8mb4 collate = utf8mb4_unicode_ci;
insert into jobs (id, queue, payload, attempts, reserved_at, available_at, created_at) values
    (1, 'default', '{"displayName":"App\\Jobs\\Ship","job":"CallQueuedHandler@call","maxTries":3}', 0, null, {unix -600}, {unix -600}),
    (2, 'default', '{"displayName":"App\\Jobs\\Ship","job":"CallQueuedHandler@call","maxTries":3}', 1, {unix -5}, {unix -500}, {unix -500}), -- reserved by the product's worker
    (3, 'default', '{"displayName":"App\\Jobs\\Mail","job":"CallQueuedHandler@call","maxTries":3}', 2, null, {unix -30}, {unix -400}), -- released after an error
    (4, 'default', '{"displayName":"App\\Jobs\\Mail","job":"CallQueuedHandler@call","maxTries":3}', 0, null, {unix 7200}, {unix -300}), -- delayed
    (5, 'reports', '{"displayName":"App\\Jobs\\Report","job":"CallQueuedHandler@call","maxTries":3}', 0, null, {unix -200}, {unix -200}),
    (6, 'default', '{"displayName":"App\\Jobs\\Ship","job":"CallQueuedHandler@call","maxTries":3}', 0, null, {unix -100}, {unix -100});
