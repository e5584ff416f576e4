create table letter (
    id bigint auto_increment primary key,
    folder varchar(10) not null default 'out',
    "lines" text not null,
    posted smallint not null default 0,
    clerk text,
    since datetime(6),
    remark text,
    index letter_open (folder, posted, id)
);
create view open_letter as
select id, "lines", posted as done, clerk, since, remark from letter where folder = 'out';
insert into letter (folder, "lines") values ('in', 'for the clerks');
