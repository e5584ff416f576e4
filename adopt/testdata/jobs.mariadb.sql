create table "Jobs" (
    "JobID" bigint unsigned auto_increment primary key,
    "StatusID" int not null default 1,
    "ConcurrencyGroup" varchar(20),
    "Parameters" text not null,
    "Remark" varchar(200),
    "Running" varchar(20) as (case when "StatusID" = 2 then "ConcurrencyGroup" end) virtual,
    unique index "Jobs_one_running" ("Running"),
    index "Jobs_queued" ("StatusID", "JobID")
);
