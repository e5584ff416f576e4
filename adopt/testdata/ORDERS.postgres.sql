create schema "My Schema";
create table "My Schema"."ORDERS" (
    "Id" bigint generated always as identity primary key,
    "Created At" timestamp not null default now(),
    "STATE" varchar(4) not null default 'NEW',
    "What's in it" text not null,
    "LockedBy" varchar(60),
    "LockedAt" timestamp,
    "REMARK" text
);
create index "ORDERS by STATE" on "My Schema"."ORDERS" ("STATE", "Created At", "Id");
