create type "OrderStatus" as enum ('PENDING', 'PROCESSING', 'COMPLETED', 'FAILED');
create table "Order" (
    id text not null primary key,
    status "OrderStatus" not null default 'PENDING',
    payload jsonb not null,
    "retryCount" integer not null default 0,
    "lastError" text,
    "startedAt" timestamp(3),
    "createdAt" timestamp(3) not null default (now() at time zone 'utc'),
    "updatedAt" timestamp(3) not null default (now() at time zone 'utc'),
    remark text
);
create index "Order_status_createdAt_idx" on "Order" (status, "createdAt");
