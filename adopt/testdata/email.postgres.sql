create table email (
    id serial primary key,
    recipient text not null,
    subject text not null,
    body text,
    remark text,
    created_at timestamptz not null default now(),
    sent_at timestamptz
);
