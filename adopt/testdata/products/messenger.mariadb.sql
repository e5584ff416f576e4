create table messenger_messages (
    id bigint auto_increment not null primary key,
    body longtext not null,
    headers longtext not null,
    queue_name varchar(190) not null,
    created_at datetime not null,
    available_at datetime not null,
    delivered_at datetime default null,
    index IDX_75EA56E0FB7336F0 (queue_name),
    index IDX_75EA56E0E3BD61CE (available_at),
    index IDX_75EA56E016BA31DB (delivered_at)
) default character set utf8mb4 collate utf8mb4_unicode_ci engine = InnoDB;
insert into messenger_messages (id, body, headers, queue_name, created_at, available_at, delivered_at) values
    (1, '{"order":1}', '{"type":"App\\Message\\Ship"}', 'default', {seconds -600}, {seconds -600}, null),
    (2, '{"order":2}', '{"type":"App\\Message\\Ship"}', 'default', {seconds -500}, {seconds -500}, {seconds -20}), -- delivered to the product's worker
    (3, '{"order":3}', '{"type":"App\\Message\\Ship"}', 'default', {seconds -400}, {seconds 7200}, null), -- delayed
    (4, '{"order":4}', '{"type":"App\\Message\\Ship"}', 'failed', {seconds -300}, {seconds -300}, null), -- failed for good
    (5, '{"order":5}', '{"type":"App\\Message\\Ship"}', 'default', {seconds -100}, {seconds -100}, null);
