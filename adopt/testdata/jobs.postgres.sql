create table "Jobs" (
    "JobID" bigint generated always as identity primary key,
    "StatusID" integer not null default 1,
    "ConcurrencyGroup" varchar(20),
    "Parameters" text not null,
    "Remark" varchar(200)
);
create unique index "Jobs_one_running" on "Jobs" ("ConcurrencyGroup") where "StatusID" = 2;
create index "Jobs_queued" on "Jobs" ("JobID") where "StatusID" = 1;
