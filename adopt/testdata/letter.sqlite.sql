create table letter (
    id integer primary key,
    folder varchar(10) not null default 'out',
    lines text not null,
    posted smallint not null default 0,
    clerk text,
    since datetime,
    remark text
);
create index letter_open on letter (id) where posted = 0;
create view open_letter as
select id, lines, posted as done, clerk, since, remark from letter where folder = 'out';
create trigger open_letter_new instead of insert on open_letter begin
    insert into letter (lines) values (new.lines);
end;
create trigger open_letter_done instead of update on open_letter begin
    update letter set posted = new.done, remark = new.remark where id = old.id;
end;
insert into letter (folder, lines) values ('in', 'for the clerks');
