create table "Order" (
    id varchar(191) not null primary key,
    status enum('PENDING', 'PROCESSING', 'COMPLETED', 'FAILED') not null default 'PENDING',
    payload json not null,
    "retryCount" int not null default 0,
    "lastError" text,
    "startedAt" datetime(3),
    "createdAt" datetime(3) not null default (utc_timestamp(3)),
    "updatedAt" datetime(3) not null default (utc_timestamp(3)),
    remark text,
    index "Order_status_createdAt_idx" (status, "createdAt")
) character set utf8mb4 collate utf8mb4_unicode_ci;
