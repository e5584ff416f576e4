-- Queues whose groups take turns.
-- Compatible with programs that know version 1.

alter table dibs.queue
    drop constraint queue_claim_order_is_fifo_or_lifo,
    add constraint queue_claim_order_is_fifo_lifo_or_fair check (claim_order in ('fifo', 'lifo', 'fair'));

-- In a queue with order fair, an admission gives each job its turn, and the number of the
-- admission. Claims go by turn, then admitted. Null: the job has none, and comes last.
alter table dibs.job
    add column turn bigint,
    add column admitted bigint;
create index job_fair on dibs.job (queue, turn, admitted, id) where gate = 0 and turn is not null;
create sequence dibs.admission;

-- Turns that claims have come to: the greatest of a queue is its turn. Rows are only added, and the others
-- deleted, so that no claim waits for another, and one look at the index's end finds the greatest.
create table dibs.reached (
    queue text collate "C" not null,
    turn  bigint not null
) with (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);
create index reached_by_turn on dibs.reached (queue, turn);
