create table "Order" (
    id text not null primary key,
    status text not null default 'PENDING',
    payload jsonb not null,
    "retryCount" integer not null default 0,
    "lastError" text,
    "startedAt" datetime,
    "createdAt" datetime not null default (cast(unixepoch('subsec') * 1000 as integer)),
    "updatedAt" datetime not null default (cast(unixepoch('subsec') * 1000 as integer)),
    remark text
);
create index "Order_status_createdAt_idx" on "Order" (status, "createdAt");
