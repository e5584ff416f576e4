create table messenger_messages (
    id {serial},
    body text not null,
    headers text not null,
    queue_name varchar(190) not null,
    created_at {seconds} not null,
    available_at {seconds} not null,
    delivered_at {seconds}
);
create index idx_messenger_queue_name on messenger_messages (queue_name);
create index idx_messenger_available_at on messenger_messages (available_at);
create index idx_messenger_delivered_at on messenger_messages (delivered_at);
insert into messenger_messages (id, body, headers, queue_name, created_at, available_at, delivered_at) values
    (1, '{"order":1}', '{"type":"App\\Message\\Ship"}', 'default', {seconds -600}, {seconds -600}, null),
    (2, '{"order":2}', '{"type":"App\\Message\\Ship"}', 'default', {seconds -500}, {seconds -500}, {seconds -20}), -- delivered to the product's worker
    (3, '{"order":3}', '{"type":"App\\Message\\Ship"}', 'default', {seconds -400}, {seconds 7200}, null), -- delayed
    (4, '{"order":4}', '{"type":"App\\Message\\Ship"}', 'failed', {seconds -300}, {seconds -300}, null), -- failed for good
    (5, '{"order":5}', '{"type":"App\\Message\\Ship"}', 'default', {seconds -100}, {seconds -100}, null);
