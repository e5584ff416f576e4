create table import (
    id int auto_increment primary key,
    created_on timestamp(3) not null default current_timestamp(3),
    started_on timestamp(3) null,
    finished_on timestamp(3) null,
    customer text not null,
    action text not null,
    remark text,
    index import_open (finished_on, started_on, created_on, id)
);
