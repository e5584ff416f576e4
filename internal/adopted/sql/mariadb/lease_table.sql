-- Purpose: create the side table.
-- Parameters: none.
-- Columns out: none.
-- Concurrency: changes nothing if another worker has created it.
{{if .Trial}}create temporary table {{.Side}} ({{else}}create table if not exists {{.Side}} ({{end}}
    source varbinary(256) not null, -- the adopted table
    "key" varbinary(2000) not null, -- the row's id, as a JSON array
    queue varbinary(255) not null, -- the queue that last claimed the row
    grp longtext character set utf8mb4 collate utf8mb4_nopad_bin, -- the row's group while the lease lasts
    token varbinary(32), -- token of the claim that holds the lease
    worker varbinary(255),
    claimed_at bigint, -- times are in microseconds since 1970
    lease_until bigint,
    attempt int not null,
    excused int not null, -- attempts that do not count
    run_at bigint not null, -- earliest next start
    dead int not null, -- 1: failed for good
    errors longtext character set utf8mb4 collate utf8mb4_nopad_bin, -- a JSON array
    primary key (source, "key"),
    index dibs_adopted_lease (source, lease_until)
) engine = InnoDB row_format = dynamic
