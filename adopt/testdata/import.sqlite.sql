create table import (
    id integer primary key,
    created_on datetime not null default (strftime('%Y-%m-%d %H:%M:%f', 'now')),
    started_on datetime,
    finished_on datetime,
    customer text not null,
    action text not null,
    remark text
);
create index import_open on import (created_on, id) where finished_on is null;
