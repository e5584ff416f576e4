-- Functions that enqueue, for programs that have no dibs: see docs/howto/sql.md and
-- docs/design/0016-sql.md. Only enqueue and enqueue_many are to be called from outside.
-- Compatible with programs that know version 1.
--
-- They do what the Go code does (internal/checks, postgres/enqueue.go, postgres/unique.go), in
-- the same words. They run with the rights of the schema's owner and with a search_path of
-- their own, whatever the caller's. Texts with backslashes are written as E'', which no
-- setting of the caller changes.

-- One entry of what a new job comes after: the job with an id, or those of its call with a ref. field is what errors
-- call it, such as after[2]; need is null for the default.
create type dibs.new_dep as (
    field text,
    id    bigint,
    ref   text,
    need  text
);

-- A job to enqueue, checked, with its defaults; null where it says nothing.
create type dibs.new_job as (
    queue        text,
    kind         text,
    payload      text,
    metadata     text,
    priority     bigint,
    delay_us     bigint,
    run_at       timestamptz,
    max_attempts bigint,
    group_key    text,
    unique_key   text,
    unique_until text,
    period_us    bigint,
    unique_window text,
    if_held      text,
    limit_us     bigint,
    ref          text,
    after        dibs.new_dep[]
);

-- A new job comes after another, once. child is its place in the call; parent is the place of the other, or null, and
-- other its id if it exists already. field is the first entry that names it.
create type dibs.new_edge as (
    child  int,
    parent int,
    other  bigint,
    need   text,
    field  text
);

-- Refuses the input: the message names the field, and so does the error's column.
create function dibs.refuse(field text, reason text) returns void
language plpgsql as $$
begin
    raise exception using
        errcode = 'invalid_parameter_value',
        message = field || ': ' || reason,
        column = field;
end
$$;

-- Gives up on a key that has changed hands too often. The caller may try again.
create function dibs.refuse_key(unique_key text) returns void
language plpgsql as $$
begin
    raise exception using
        errcode = 'serialization_failure',
        message = 'unique key ' || dibs.quoted(unique_key) || ' changed hands 20 times during one call: database unavailable';
end
$$;

-- A text as errors quote it: at most 40 bytes, and nothing that changes a terminal.
create function dibs.quoted(given text) returns text
language plpgsql immutable as $$
declare
    clipped text := left(given, 40);
    out text := '';
    c text;
    n int;
begin
    if octet_length(given) > 40 then
        while octet_length(clipped) > 40 loop
            clipped := left(clipped, -1);
        end loop;
        clipped := clipped || chr(8230);
    end if;
    if clipped !~ E'[^ !#-\\[\\]-~\\u2026]' then
        return '"' || clipped || '"';
    end if;
    for i in 1 .. length(clipped) loop
        c := substr(clipped, i, 1);
        out := out || case when c = '"' then E'\\"' else dibs.escaped(c) end;
    end loop;
    return '"' || out || '"';
end
$$;

-- A character as errors show it.
create function dibs.escaped(c text) returns text
language sql immutable as $$
    select case
        when c = E'\\' then E'\\\\'
        when ascii(c) between 7 and 13 then E'\\' || substr('abtnvfr', ascii(c) - 6, 1)
        when ascii(c) < 32 or ascii(c) = 127 then E'\\x' || lpad(to_hex(ascii(c)), 2, '0')
        when c ~ E'[\\u0080-\\u00a0\\u00ad\\u061c\\u1680\\u180e\\u2000-\\u200f\\u2028-\\u202f\\u205f-\\u206f\\u3000\\ue000-\\uf8ff\\ufeff\\ufff0-\\ufffb\\uffff]'
            then E'\\u' || lpad(to_hex(ascii(c)), 4, '0')
        else c
    end
$$;

-- A number of microseconds as errors show it: 1h0m0s, 1.5s, 250ms.
create function dibs.shown_duration(us bigint) returns text
language sql immutable as $$
    select case when us < 0 then '-' else '' end || case
        when us = 0 then '0s'
        when abs(us) < 1000 then abs(us) || 'µs'
        when abs(us) < 1000000 then trim_scale(abs(us) / 1000.0) || 'ms'
        else case when abs(us) >= 3600000000 then abs(us) / 3600000000 || 'h' else '' end
            || case when abs(us) >= 60000000 then abs(us) / 60000000 % 60 || 'm' else '' end
            || trim_scale(abs(us) % 60000000 / 1000000.0) || 's'
    end
$$;

-- Microseconds of an interval. It may not hold months, whose length depends on the date.
create function dibs.microseconds(field text, given interval) returns bigint
language plpgsql immutable as $$
begin
    if given is null then
        return null;
    elsif extract(month from given) <> 0 or extract(year from given) <> 0 then
        perform dibs.refuse(field, 'must be in days, hours or less, as months and years differ in length, got ' || given);
    end if;
    return trunc(least(greatest(extract(epoch from given)::numeric * 1000000, -9e18), 9e18))::bigint;
end
$$;

-- What a JSON value is, for a message.
create function dibs.json_kind(given json) returns text
language sql immutable as $$
    select case json_typeof(given)
        when 'array' then 'an array'
        when 'object' then 'an object'
        when 'boolean' then 'a bool'
        when 'null' then 'null'
        else 'a ' || json_typeof(given)
    end
$$;

create function dibs.check_text(field text, given text, most int) returns void
language plpgsql immutable as $$
declare
    bad text;
begin
    if octet_length(given) > most then
        perform dibs.refuse(field, 'is ' || octet_length(given) || ' bytes, the limit is ' || most);
    end if;
    bad := substring(given collate "C" from E'[\\u0001-\\u001f\\u007f-\\u009f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069]');
    if bad is null then
        return;
    end if;
    perform dibs.refuse(field, 'must not contain ' || case when ascii(bad) < 160 then 'control characters'
        else 'characters that turn the direction of text or separate lines' end
        || ', has ''' || dibs.escaped(bad) || ''' in ' || dibs.quoted(given));
end
$$;

-- Few texts have more than 1000 brackets. Of those, this takes what is outside of strings, which
-- is every other part between quotes once escapes are gone, and after each bracket that opens
-- counts those before it that closed: 7 ms for 100 kB.
create function dibs.check_depth(field text, given text) returns void
language plpgsql immutable as $$
declare
    outside text;
    deepest bigint;
begin
    if octet_length(given) - octet_length(replace(replace(given, '[', ''), '{', '')) <= 1000 then
        return;
    end if;
    select string_agg(p.part, '' order by p.n) into outside
    from unnest(string_to_array(replace(replace(given, E'\\\\', ''), E'\\"', ''), '"')) with ordinality as p (part, n)
    where p.n % 2 = 1;
    select max(c.n - 1 - c.closed) into deepest
    from (
        select p.n, sum(octet_length(p.part) - octet_length(replace(p.part, ']', ''))) over (order by p.n rows between unbounded preceding and 1 preceding) as closed
        from unnest(string_to_array(replace(replace(outside, '{', '['), '}', ']'), '[')) with ordinality as p (part, n)
    ) c;
    if deepest > 1000 then
        perform dibs.refuse(field, 'is nested more than 1000 deep');
    end if;
end
$$;

create function dibs.check_delay(field text, us bigint) returns void
language plpgsql immutable as $$
begin
    if us < 0 then
        perform dibs.refuse(field, 'must not be negative, got ' || dibs.shown_duration(us));
    elsif us > 315360000000000 then
        perform dibs.refuse(field, 'must be at most 87600h0m0s, got ' || dibs.shown_duration(us));
    end if;
end
$$;

-- Refuses a job that breaks a rule, other than its queue's limit of payloads. place comes before
-- the names of fields.
create function dibs.check_job(place text, j dibs.new_job) returns void
language plpgsql immutable as $$
declare
    starts boolean := j.run_at is not null or coalesce(j.delay_us, 0) <> 0;
    year int;
begin
    if strpos(j.queue, '://') > 0 then
        perform dibs.refuse(place || 'queue', 'must not contain ://: the URL of a database goes to --db');
    end if;
    if octet_length(concat(j.queue, j.kind, j.group_key, j.unique_key)) > 255 or concat(j.queue, j.kind, j.group_key, j.unique_key) collate "C" ~ '[^ -~]' then
        perform dibs.check_text(place || 'queue', j.queue, 255);
        perform dibs.check_text(place || 'kind', j.kind, 255);
        perform dibs.check_text(place || 'group', j.group_key, 255);
        perform dibs.check_text(place || 'unique_key', j.unique_key, 512);
    end if;
    if j.max_attempts < 0 or j.max_attempts > 1000000 then
        perform dibs.refuse(place || 'max_attempts', 'must be 1 to 1000000, or 0 for the queue''s, got ' || j.max_attempts);
    end if;
    if j.delay_us <> 0 and j.run_at is not null then
        perform dibs.refuse(place || 'delay', 'give either delay or run_at, not both');
    end if;
    if j.delay_us <> 0 then
        perform dibs.check_delay(place || 'delay', j.delay_us);
    end if;
    if not isfinite(j.run_at) then
        perform dibs.refuse(place || 'run_at', 'must lie in the years 1 to 9999, got ' || j.run_at);
    end if;
    year := extract(year from j.run_at at time zone 'UTC');
    if year < 0 or year > 9999 then
        perform dibs.refuse(place || 'run_at', 'must lie in the years 1 to 9999, got year ' || case when year < 0 then year + 1 else year end);
    end if;
    if j.priority < 0 or j.priority > 32767 then
        perform dibs.refuse(place || 'priority', 'must be 0 to 32767, got ' || j.priority);
    end if;
    if not (j.unique_until in ('finished', 'claimed')) then
        perform dibs.refuse(place || 'unique_until', 'must be "finished" or "claimed", got ' || dibs.quoted(j.unique_until));
    end if;
    if not (j.if_held in ('keep', 'replace', 'push')) then
        perform dibs.refuse(place || 'if_held', 'must be "keep", "replace" or "push", got ' || dibs.quoted(j.if_held));
    end if;
    if j.unique_key is null and (coalesce(j.unique_until, j.unique_window, j.if_held) is not null or coalesce(j.period_us, 0) <> 0 or coalesce(j.limit_us, 0) <> 0) then
        perform dibs.refuse(place || g.field, 'needs a unique_key')
        from (values (1, 'unique_until', j.unique_until is not null), (2, 'unique_for', coalesce(j.period_us, 0) <> 0), (3, 'unique_window', j.unique_window is not null),
            (4, 'if_held', j.if_held is not null), (5, 'delay_limit', coalesce(j.limit_us, 0) <> 0)) as g (ord, field, given)
        where g.given
        order by g.ord
        limit 1;
    elsif j.unique_key is not null then
        perform dibs.check_delay(place || 'delay_limit', j.limit_us);
        if j.if_held = 'push' and not starts then
            perform dibs.refuse(place || 'run_at', 'is missing: if_held "push" moves run_at on; give it or a delay');
        elsif j.if_held = 'push' and coalesce(j.limit_us, 0) = 0 then
            perform dibs.refuse(place || 'delay_limit', 'is missing: without it, if_held "push" could put a job off for ever');
        elsif j.limit_us <> 0 and coalesce(j.if_held, 'keep') = 'keep' then
            perform dibs.refuse(place || 'delay_limit', 'needs if_held "replace" or "push"');
        elsif j.limit_us <> 0 and not starts then
            perform dibs.refuse(place || 'delay_limit', 'needs run_at or delay');
        end if;
        perform dibs.check_period(place, j.period_us, j.unique_window);
    end if;
    if octet_length(j.metadata) > 16384 then
        perform dibs.refuse(place || 'metadata', 'is ' || octet_length(j.metadata) || ' bytes, the limit is 16384');
    elsif json_typeof(j.metadata::json) <> 'object' then
        perform dibs.refuse(place || 'metadata', 'must be a JSON object, and is ' || dibs.json_kind(j.metadata::json));
    elsif octet_length(j.metadata) > 2000 then
        perform dibs.check_depth(place || 'metadata', j.metadata);
    end if;
    if strpos(lower(j.metadata), '"dibs' || '.') > 0 and exists (
        -- Escapes stay as they are: some cannot be read.
        select from json_object_keys(replace(j.metadata, E'\\u', E'\\\\u')::json) as k (name) where lower(left(k.name, 5)) = 'dibs' || '.'
    ) then
        perform dibs.refuse(place || 'metadata', 'must not have members whose names begin with "dibs' || '.": only dibs writes those');
    end if;
end
$$;

create function dibs.check_period(place text, us bigint, named text) returns void
language plpgsql immutable as $$
begin
    if us <> 0 and named is not null then
        perform dibs.refuse(place || 'unique_window', 'give either unique_for or unique_window, not both');
    elsif us <> 0 then
        perform dibs.check_delay(place || 'unique_for', us);
        if us < 1000 then
            perform dibs.refuse(place || 'unique_for', 'must be at least 1ms, got ' || dibs.shown_duration(us));
        end if;
    elsif not (split_part(named, ' in ', 1) in ('hour', 'day', 'week', 'month')) then
        perform dibs.refuse(place || 'unique_window', 'must be "hour", "day", "week" or "month", and may name a time zone as in "day in Europe/Berlin", got ' || dibs.quoted(named));
    elsif strpos(named, ' in ') > 0 and substr(named, strpos(named, ' in ') + 4) = '' then
        perform dibs.refuse(place || 'unique_window', 'names no time zone after "in"');
    elsif strpos(named, ' in ') > 0 and not (substr(named, strpos(named, ' in ') + 4) in ('UTC', 'Etc/UTC')) then
        perform dibs.refuse(place || 'unique_window', 'must be in UTC in SQL, got ' || dibs.quoted(named) || '; give unique_for until the end of the window');
    end if;
end
$$;

-- The jobs with their places, from 1.
create function dibs.numbered(jobs dibs.new_job[]) returns table (
    queue text, kind text, payload text, metadata text, priority bigint, delay_us bigint, run_at timestamptz, max_attempts bigint, group_key text,
    unique_key text, unique_until text, period_us bigint, unique_window text, if_held text, limit_us bigint, ref text, after dibs.new_dep[], ord int
)
language sql immutable as $$
    select
        n.queue,
        n.kind,
        n.payload,
        n.metadata,
        n.priority,
        n.delay_us,
        n.run_at,
        n.max_attempts,
        n.group_key,
        n.unique_key,
        n.unique_until,
        n.period_us,
        n.unique_window,
        n.if_held,
        n.limit_us,
        n.ref,
        n.after,
        n.ord::int
    from unnest(jobs) with ordinality as n (queue, kind, payload, metadata, priority, delay_us, run_at, max_attempts, group_key,
        unique_key, unique_until, period_us, unique_window, if_held, limit_us, ref, after, ord)
$$;

-- The time to take for now: read after the transaction has got its number (enqueue.sql says why).
create function dibs.clock() returns timestamptz
language sql as $$ select case when pg_current_xact_id() is not null then clock_timestamp() end $$;

-- Inserts checked jobs without unique keys, and returns their ids in order. wide says whether some
-- payloads are; attempts has the queues' max_attempts. It takes no lock that another enqueuer or a
-- claimer needs.
create function dibs.insert_jobs(jobs dibs.new_job[], wide boolean, attempts jsonb, at timestamptz) returns bigint[]
language plpgsql as $$
declare
    ids bigint[] := array(select nextval('dibs.job_id') from generate_series(1, cardinality(jobs)));
begin
    insert into dibs.job (id, queue, kind, payload, metadata, priority, run_at, gate, max_attempts, group_key, created_at)
    select
        ids[n.ord],
        n.queue,
        n.kind,
        case when not wide or octet_length(n.payload) + coalesce(octet_length(n.metadata), 0) < 512 then n.payload end,
        case when not wide or octet_length(n.payload) + coalesce(octet_length(n.metadata), 0) < 512 then n.metadata end,
        n.priority,
        greatest(n.run_at, at + nullif(n.delay_us, 0) * interval '1 microsecond', at),
        case
            when n.group_key is null then 0
            when coalesce(n.run_at, at + n.delay_us * interval '1 microsecond') <= at then 1
            else 2
        end,
        coalesce(n.max_attempts, (attempts ->> n.queue)::int, 25),
        n.group_key,
        at
    from dibs.numbered(jobs) n;
    return ids;
end
$$;

-- Inserts those jobs whose keys no period and no live job holds, as enqueue_unique.sql does. The
-- others have no ids; holders has who holds the keys of these, as it sees.
create function dibs.insert_absent(jobs dibs.new_job[], taken boolean[], attempts jsonb, at timestamptz, out ids bigint[], out holders bigint[])
language plpgsql as $$
begin
    with asked as materialized (
        select
            k.*,
            case when taken[k.ord] then nextval('dibs.job_id') end as id,
            octet_length(k.payload) + coalesce(octet_length(k.metadata), 0) >= 512 as wide,
            coalesce(k.run_at, at + k.delay_us * interval '1 microsecond') as starts
        from dibs.numbered(jobs) k
    ), added as (
        insert into dibs.job (id, queue, kind, payload, metadata, priority, run_at, gate, max_attempts, group_key, unique_key, unique_until, unique_held, created_at)
        select
            a.id,
            a.queue,
            a.kind,
            case when not a.wide then a.payload end,
            case when not a.wide then a.metadata end,
            a.priority,
            greatest(a.starts, at),
            case when a.group_key is null then 0 when a.starts <= at then 1 else 2 end,
            coalesce(a.max_attempts, (attempts ->> a.queue)::int, 25),
            a.group_key,
            a.unique_key,
            case when a.unique_key is not null then coalesce(a.unique_until, 'finished') end,
            a.unique_key is not null,
            at
        from asked a
        where a.id is not null
        order by a.queue, a.unique_key, a.ord
        on conflict (queue, unique_key) where unique_held do nothing
        returning id
    )
    select
        array_agg(case when a.inserted then a.id end order by a.ord),
        array_agg(case when a.id is not null and not a.inserted then (
            select h.id
            from dibs.job h
            where h.queue = a.queue and h.unique_key = a.unique_key and h.unique_held
            order by h.id desc
            limit 1
        ) end order by a.ord)
    into ids, holders
    from (
        select k.*, k.id in (select i.id from added i) as inserted
        from asked k
    ) a;
end
$$;

-- Counts jobs that have been inserted, wakes their groups and writes their wide payloads, and wakes
-- workers after the commit. Jobs without an id were not inserted. counts has the queues' jobs, if
-- they are known: all were inserted, and none is blocked. grouped says that some have
-- groups; new, that some queue has no settings yet, or does not say that it has groups:
-- new_queues.sql finds it by wake_list.
create function dibs.note_jobs(jobs dibs.new_job[], ids bigint[], wide boolean, grouped boolean, new boolean, counts jsonb, at timestamptz) returns void
language plpgsql as $$
declare
    queues text[];
    told text;
begin
    with counted as (
        insert into dibs.tally (queue, waiting, blocked, enqueued)
        select t.queue, t.n - t.blocked, nullif(t.blocked, 0), t.n
        from (
            select c.key, c.value::bigint, 0::bigint
            from jsonb_each_text(counts) c
            union all
            select
                k.queue,
                count(*),
                count(*) filter (where k.group_key is not null and coalesce(k.run_at, at + k.delay_us * interval '1 microsecond') <= at)
            from dibs.numbered(jobs) k
            where counts is null and ids[k.ord] is not null
            group by k.queue
        ) t (queue, n, blocked)
        returning queue
    )
    select array_agg(queue) into queues
    from counted;
    if new or grouped then
        insert into dibs.wake_list (queue, groups)
        select g.queue, coalesce(array_agg(g.group_key) filter (where g.group_key is not null), '{}')
        from (
            select distinct k.queue, k.group_key, k.ord / 500 as part
            from dibs.numbered(jobs) k
            where ids[k.ord] is not null
                and (new or k.group_key is not null and coalesce(k.run_at, at + k.delay_us * interval '1 microsecond') <= at)
        ) g
        group by g.queue, g.part;
    end if;
    if wide then
        insert into dibs.payload (id, payload, metadata)
        select ids[k.ord], k.payload, k.metadata
        from dibs.numbered(jobs) k
        where ids[k.ord] is not null and octet_length(k.payload) + coalesce(octet_length(k.metadata), 0) >= 512;
    end if;
    for i in 1 .. coalesce(cardinality(queues), 0) loop
        told := dibs.tell(case when cardinality(queues) > 100 then '' else queues[i] end, new);
    end loop;
end
$$;

-- When the period of a job ends that is enqueued now.
create function dibs.period_end(us bigint, named text, at timestamptz) returns timestamptz
language sql immutable as $$
    select case
        when us <> 0 then at + us * interval '1 microsecond'
        else (date_trunc(split_part(named, ' in ', 1), at at time zone 'UTC') + ('1 ' || split_part(named, ' in ', 1))::interval) at time zone 'UTC'
    end
$$;

-- Inserts checked jobs, some with unique keys; those whose keys are held meet the holders. It
-- begins again if a holder has given its key up in between, and undoes all before, as postgres/unique.go.
create function dibs.insert_unique(jobs dibs.new_job[], wide boolean, grouped boolean, new boolean, attempts jsonb, out ids bigint[], out met boolean[], out did text[])
language plpgsql as $$
begin
    for attempt in 1 .. 20 loop
        if cardinality(jobs) = 1 then -- without an answer nothing is inserted
            select a.* into ids, met, did
            from dibs.try_unique(jobs, wide, grouped, new, attempts) a;
            if ids[1] is not null then
                return;
            end if;
        else
            begin
                select a.* into ids, met, did
                from dibs.try_unique(jobs, wide, grouped, new, attempts) a;
                if array_position(ids, null) is null then
                    return;
                end if;
                raise exception using errcode = 'DIBS1';
            exception
                when sqlstate 'DIBS1' then null;
            end;
        end if;
    end loop;
    perform dibs.refuse_key(jobs[array_position(ids, null)].unique_key);
end
$$;

-- An attempt to do so. It takes the steps of postgres/unique.go, in the same order, with its
-- statements. A job whose key has become free in between gets no id.
create function dibs.try_unique(jobs dibs.new_job[], wide boolean, grouped boolean, new boolean, attempts jsonb, out ids bigint[], out met boolean[], out did text[])
language plpgsql as $$
#variable_conflict use_column
declare
    periods boolean[]; -- by place: the job has a period
    taken boolean[]; -- by place: no period keeps the job out; that of its key is locked
    any_period boolean;
    holders bigint[]; -- by place: who held the key when the others were inserted
    at timestamptz;
    r record;
begin
    select
        array_agg(k.period_us <> 0 or k.unique_window is not null order by k.ord),
        array_agg(not (k.period_us <> 0 or k.unique_window is not null) order by k.ord),
        bool_or(k.period_us <> 0 or k.unique_window is not null)
    into periods, taken, any_period
    from dibs.numbered(jobs) k;
    met := array_fill(false, array[cardinality(jobs)]);
    did := array_fill(''::text, array[cardinality(jobs)]);
    if any_period then
        for r in
            with locked as (
                insert into dibs.unique_window (queue, unique_key, until)
                select distinct k.queue, k.unique_key, '-infinity'::timestamptz
                from dibs.numbered(jobs) k
                where not taken[k.ord] and not exists (
                    select
                    from dibs.unique_window w
                    where w.queue = k.queue and w.unique_key = k.unique_key and w.until > clock_timestamp()
                    offset 0
                )
                order by k.queue, k.unique_key
                on conflict (queue, unique_key) do update
                set until = unique_window.until
                where unique_window.until <= clock_timestamp()
                returning queue, unique_key
            )
            select k.ord
            from locked l
            join dibs.numbered(jobs) k on k.queue = l.queue and k.unique_key = l.unique_key and periods[k.ord]
        loop
            taken[r.ord] := true;
        end loop;
    end if;
    at := dibs.clock();
    select a.ids, a.holders into ids, holders
    from dibs.insert_absent(jobs, taken, attempts, at) a;
    perform dibs.note_jobs(jobs, ids, wide, grouped, new, null, at);
    if any_period then
        update dibs.unique_window w
        set
            until = dibs.period_end(k.period_us, k.unique_window, at),
            job = ids[k.ord]
        from dibs.numbered(jobs) k
        where ids[k.ord] is not null and periods[k.ord] and w.queue = k.queue and w.unique_key = k.unique_key;
    end if;
    if array_position(ids, null) is not null then
        for r in
            select m.place, m.job, m.did
            from dibs.meet_holders(jobs, ids, taken, holders, at) m
        loop
            ids[r.place] := r.job;
            met[r.place] := true;
            did[r.place] := r.did;
        end loop;
    end if;
end
$$;

-- The keys of jobs that have no id yet, and where to look for their holders. If a job without a
-- period was inserted, those before it that a period kept out do not meet it. met has the jobs
-- that have the ids of holders.
create function dibs.held_keys(jobs dibs.new_job[], met boolean[], ids bigint[], taken boolean[]) returns table (
    queue text, unique_key text, live boolean, in_period boolean, changes boolean, places int[]
)
language sql stable as $$
    select
        k.queue,
        k.unique_key,
        coalesce(f.ord < k.ord, true),
        bool_or(not taken[k.ord]),
        bool_or(coalesce(k.if_held, 'keep') <> 'keep'),
        array_agg(k.ord order by k.ord)
    from dibs.numbered(jobs) k
    left join (
        select i.queue, i.unique_key, max(i.ord) as ord
        from dibs.numbered(jobs) i
        where not met[i.ord] and ids[i.ord] is not null and i.unique_key is not null
        group by i.queue, i.unique_key
    ) f on f.queue = k.queue and f.unique_key = k.unique_key
    where ids[k.ord] is null
    group by 1, 2, 3
$$;

-- Has jobs without an id meet the holders of their keys: lock_holders.sql, checks.Holder and
-- holders.sql. If a holder has given its key up meanwhile, jobs that were not to change it meet it
-- all the same, as holders says; others are left out.
create function dibs.meet_holders(jobs dibs.new_job[], ids bigint[], taken boolean[], holders bigint[], at timestamptz)
returns table (place int, job bigint, did text)
language plpgsql as $$
#variable_conflict use_column
declare
    h record;
    j dibs.new_job;
    becomes dibs.new_job; -- the job that the holder has become
    whole boolean;
    starts timestamptz;
    given boolean;
    run timestamptz;
    met boolean[] := array_fill(false, array[cardinality(jobs)]);
begin
    for h in
        with found as materialized (
            select e.places, e.in_period, coalesce((
                select l.id
                from dibs.job l
                where e.live and l.queue = e.queue and l.unique_key = e.unique_key and l.unique_held
                order by l.id desc
                limit 1
            ), (
                select w.job
                from dibs.unique_window w
                where e.in_period and w.queue = e.queue and w.unique_key = e.unique_key
            )) as id
            from dibs.held_keys(jobs, met, ids, taken) e
            where e.changes
        )
        select f.places, l.id, l.created_at, l.run_at
        from (
            select places, in_period, id
            from found
            where id is not null
            order by id
            offset 0
        ) f
        cross join lateral (
            select i.id, i.created_at, i.run_at
            from dibs.job i
            where i.id = f.id and i.token is null and (i.unique_held or f.in_period)
            offset 0
            for no key update
        ) l
    loop
        run := h.run_at;
        whole := false;
        foreach place in array h.places loop
            j := jobs[place];
            job := h.id;
            did := coalesce(j.if_held, 'keep');
            given := j.run_at is not null or coalesce(j.delay_us, 0) <> 0;
            starts := coalesce(j.run_at, at + coalesce(j.delay_us, 0) * interval '1 microsecond');
            if j.limit_us <> 0 then
                starts := least(starts, h.created_at + j.limit_us * interval '1 microsecond');
            end if;
            if did = 'replace' then
                becomes := j;
                whole := true;
                if given or run > starts then
                    run := greatest(starts, at);
                end if;
            elsif did = 'push' and starts > at then -- else a due job would only lose its turn
                run := greatest(starts, run);
            end if;
            ids[place] := h.id;
            met[place] := true;
            return next;
        end loop;
        if whole or run <> h.run_at then
            perform dibs.change_holder(h.id, case when whole then becomes end, nullif(run, h.run_at), at);
        end if;
    end loop;
    return query
    select p.place, l.id, 'keep'
    from dibs.held_keys(jobs, met, ids, taken) e
    cross join lateral (
        select coalesce((
            select i.id
            from dibs.job i
            where e.live and i.queue = e.queue and i.unique_key = e.unique_key and i.unique_held
            order by i.id desc
            limit 1
        ), (
            select w.job
            from dibs.unique_window w
            where e.in_period and w.queue = e.queue and w.unique_key = e.unique_key
        ), (
            select max(holders[p])
            from unnest(e.places) p
            where e.live and not e.changes
        )) as id
        offset 0
    ) l
    cross join unnest(e.places) as p (place)
    where l.id is not null;
end
$$;

-- Changes a waiting job that this transaction has locked: replace.sql. It becomes another job, if
-- one is given, and starts at another time, if one is given. A job that becomes a new one has no
-- steps, and one that waits for others goes on to do so.
create function dibs.change_holder(holder bigint, becomes dibs.new_job, starts timestamptz, at timestamptz) returns void
language plpgsql as $$
#variable_conflict use_column
declare
    stepped boolean; -- the job that goes has steps
begin
    select j.stepped
    into stepped
    from dibs.job j
    where j.id = holder and j.token is null;
    if (becomes).kind is not null and stepped then
        delete from dibs.step s where s.job = holder;
    end if;
    with meant as materialized (
        select
            j.id,
            j.gate as old_gate,
            j.group_key as old_group,
            (becomes).kind is not null as whole,
            octet_length((becomes).payload) + coalesce(octet_length((becomes).metadata), 0) >= 512 as wide,
            g.group_key,
            q.max_attempts as attempts,
            j.gate = 0 and coalesce(q.strict, false) and j.attempt > 0 and g.group_key = j.group_key as keeps,
            starts is null as stays,
            case when starts is null then j.run_at else greatest(starts, at) end as run_at
        from dibs.job j
        left join dibs.queue q on q.name = j.queue
        cross join lateral (
            select case when (becomes).kind is not null then (becomes).group_key else j.group_key end as group_key
        ) g
        where j.id = holder
    ), changed as (
        update dibs.job j
        set
            kind = case when m.whole then (becomes).kind else j.kind end,
            payload = case when not m.whole then j.payload when not m.wide then (becomes).payload end,
            metadata = case when not m.whole then j.metadata when not m.wide then (becomes).metadata end,
            priority = case when m.whole then (becomes).priority else j.priority end,
            max_attempts = case when m.whole then coalesce((becomes).max_attempts, m.attempts, 25) else j.max_attempts end,
            excused = case when m.whole then j.attempt else j.excused end,
            stepped = case when m.whole then null else j.stepped end,
            group_key = m.group_key,
            run_at = m.run_at,
            gate = case when m.old_gate = 5 then 5 when m.group_key is null or m.keeps then 0 when m.run_at <= at then 1 else 2 end,
            returned = j.returned or m.stays
        from meant m
        where j.id = m.id and j.token is null
        returning j.id, j.queue, j.group_key, j.gate, m.whole, m.wide, m.old_gate, m.old_group
    ), narrow as (
        delete from dibs.payload p
        using changed c
        where c.whole and not c.wide and p.id = c.id
    ), wide as (
        insert into dibs.payload (id, payload, metadata)
        select c.id, (becomes).payload, (becomes).metadata
        from changed c
        where c.whole and c.wide
        on conflict (id) do update
        set
            payload = excluded.payload,
            metadata = excluded.metadata
    ), woken as (
        insert into dibs.wake (queue, group_key)
        select distinct c.queue, g.group_key
        from changed c
        cross join lateral unnest(array[c.group_key, c.old_group]) as g (group_key)
        where g.group_key is not null
    ), listed as (
        insert into dibs.wake_list (queue, groups)
        select c.queue, array[c.group_key]
        from changed c
        left join dibs.queue q on q.name = c.queue
        where c.group_key is not null and coalesce(q.grouped, false) = false
    )
    insert into dibs.tally (queue, waiting, blocked)
    select c.queue, - c.n, c.n
    from (
        select queue, count(*) filter (where gate in (1, 5)) - count(*) filter (where old_gate in (1, 5)) as n
        from changed
        group by queue
    ) c
    where c.n <> 0;
    perform dibs.tell(j.queue, j.group_key is not null and not coalesce(q.grouped, false))
    from dibs.job j
    left join dibs.queue q on q.name = j.queue
    where j.id = holder;
end
$$;

-- Wakes workers after the commit: a NOTIFY for the listeners of wake.go, from nobody whom they know.
create function dibs.tell(queue text, new boolean) returns text
language sql as $$
    select pg_notify(left('dibs:' || rtrim(replace('dibs.', '"', ''), '.'), 63), case when new then 'new ' else 'sql ' end || queue)::text
$$;

-- Refuses the first payload over its queue's limit. place begins the names of fields, such as
-- jobs[%s]. of a batch.
create function dibs.refuse_payloads(place text, jobs dibs.new_job[]) returns void
language plpgsql as $$
declare
    big record;
begin
    select
        k.ord,
        k.queue,
        octet_length(k.payload) as size,
        case when octet_length(k.payload) > 67108864 then 67108864 else coalesce(q.payload_limit, 1048576) end as most
    into big
    from dibs.numbered(jobs) k
    left join dibs.queue q on q.name = k.queue
    where octet_length(k.payload) > coalesce(q.payload_limit, 1048576)
    order by octet_length(k.payload) <= 67108864, k.ord
    limit 1;
    if found then
        perform dibs.refuse(format(place, big.ord - 1) || 'payload', 'is ' || big.size || ' bytes, the limit of queue ' || dibs.quoted(big.queue) || ' is ' || big.most);
    end if;
end
$$;

-- The entries of what jobs come after, by the jobs' places and their own. earlier counts the jobs that have the ref and
-- stand before; latest is the place of the last one that has it. again: an entry before names the same. conflict: it, or
-- one before, needs that the same job is completed, and another that it has failed.
create function dibs.deps(jobs dibs.new_job[]) returns table (
    ord int, nth bigint, field text, id bigint, ref text, need text, if_held text, earlier bigint, latest int, again boolean, conflict boolean
)
language sql immutable as $$
    select
        e.ord,
        e.nth,
        e.field,
        e.id,
        e.ref,
        e.need,
        e.if_held,
        e.earlier,
        e.latest,
        row_number() over same > 1,
        bool_or(e.need = 'completed') over same and bool_or(e.need = 'failed') over same
    from (
        select
            u.*,
            count(*) filter (where u.nth is null) over (partition by u.ref order by u.ord, u.nth) as earlier,
            max(u.ord) filter (where u.nth is null) over (partition by u.ref) as latest
        from (
            select k.ord, null::bigint as nth, null as field, null::bigint as id, k.ref, null as need, null as if_held
            from dibs.numbered(jobs) k
            where k.ref is not null
            union all
            select k.ord, d.nth, d.field, d.id, d.ref, coalesce(d.need, 'completed'), k.if_held
            from dibs.numbered(jobs) k
            cross join lateral unnest(k.after) with ordinality as d (field, id, ref, need, nth)
        ) u
    ) e
    where e.nth is not null
    window same as (partition by e.ord, e.id, e.ref order by e.nth)
$$;

-- Finds what jobs of a call come after, and refuses what internal/checks/flow.go refuses; null: nothing. This
-- function and the next two plan each call: a plan that was made for few jobs would compare each with each.
create function dibs.find_edges(place text, jobs dibs.new_job[]) returns dibs.new_edge[]
language plpgsql set plan_cache_mode = force_custom_plan as $$
declare
    d record;
    job text;
begin
    perform dibs.check_text(format(place, k.ord - 1) || 'ref', k.ref, 255)
    from dibs.numbered(jobs) k
    where octet_length(k.ref) > 255 or k.ref collate "C" ~ '[^ -~]';
    for d in
        select e.*, sum(case when e.again then 0 when e.id is null then e.earlier else 1 end) over (order by e.ord, e.nth) as total
        from dibs.deps(jobs) e
        order by e.ord, e.nth
    loop
        job := format(place, d.ord - 1);
        if d.if_held in ('replace', 'push') then
            perform dibs.refuse(job || 'after', 'must be empty with if_held ' || dibs.quoted(d.if_held) || ': the job that holds the key keeps what it waits for');
        elsif not (d.need in ('completed', 'ended', 'failed')) then
            perform dibs.refuse(job || d.field, 'on must be completed, ended or failed, got ' || dibs.quoted(d.need));
        elsif num_nonnulls(d.id, d.ref) <> 1 then
            perform dibs.refuse(job || d.field, 'must have an id or a ref' || case when d.id is not null then ', not both' else '' end);
        elsif d.id < 1 then
            perform dibs.refuse(job || d.field, 'an id must be at least 1, got ' || d.id);
        elsif octet_length(d.ref) > 255 or d.ref collate "C" ~ '[^ -~]' then
            perform dibs.check_text(job || d.field || '.ref', d.ref, 255);
        end if;
        if d.earlier = 0 and d.latest >= d.ord then
            perform dibs.refuse(job || d.field, 'the jobs with ref ' || dibs.quoted(d.ref) || ' must stand earlier in the call; one stands at jobs[' || d.latest - 1 || ']');
        elsif d.earlier = 0 and d.ref collate "C" ~ '^[0-9]+$' then
            perform dibs.refuse(job || d.field, 'no earlier job of the call has the ref ' || dibs.quoted(d.ref) || '; an id is written without quotes');
        elsif d.conflict and (d.id is not null or d.earlier > 0) then
            perform dibs.refuse(job || d.field, 'a job cannot come after one other that is both completed and failed');
        elsif d.total > 100000 then
            perform dibs.refuse(job || 'after', 'the jobs of one call come after more than 100000 others in all');
        end if;
    end loop;
    return array(
        select row(g.ord, r.ord, g.id, g.need, g.field)::dibs.new_edge
        from (
            select
                e.ord,
                e.id,
                e.ref,
                min(e.nth) as nth,
                (array_agg(e.field order by e.nth))[1] as field,
                case when bool_or(e.need = 'completed') then 'completed' when bool_or(e.need = 'failed') then 'failed' else 'ended' end as need
            from dibs.deps(jobs) e
            group by e.ord, e.id, e.ref
        ) g
        left join dibs.numbered(jobs) r on r.ref = g.ref and r.ord < g.ord
        where g.id is not null or r.ord is not null
        order by g.ord, g.nth, r.ord
    );
end
$$;

-- Refuses the first edge to a job that does not exist: no_jobs.sql.
create function dibs.refuse_missing(place text, edges dibs.new_edge[]) returns void
language plpgsql set plan_cache_mode = force_custom_plan as $$
declare
    missing record;
begin
    select e.child, e.field, e.other into missing
    from unnest(edges) with ordinality as e (child, parent, other, need, field, nth)
    where e.other is not null
        and not exists (select from dibs.job j where j.id = e.other offset 0)
        and not exists (select from dibs.finished f where f.id = e.other offset 0)
    order by e.nth
    limit 1;
    if found then
        perform dibs.refuse(format(place, missing.child - 1) || missing.field, 'there is no job ' || missing.other);
    end if;
end
$$;

-- Notes what jobs of a call come after: edges.sql, follow.sql, and flowOf of postgres/flow.go. ids and met are by the
-- jobs' places.
create function dibs.link_jobs(ids bigint[], met boolean[], edges dibs.new_edge[]) returns void
language plpgsql set plan_cache_mode = force_custom_plan as $$
begin
    if true = any (met) then -- a job that held a key and is gone is not waited for
        edges := array(
            select row (e.child, e.parent, e.other, e.need, e.field)::dibs.new_edge
            from unnest(edges) with ordinality as e (child, parent, other, need, field, nth)
            where e.other is not null
                or not coalesce(met[e.parent], false)
                or exists (select from dibs.job j where j.id = ids[e.parent] offset 0)
                or exists (select from dibs.finished f where f.id = ids[e.parent] offset 0)
            order by e.nth
        );
    end if;

    with edge as materialized (
        select ids[e.child] as child, coalesce(e.other, ids[e.parent]) as parent, e.need, e.nth, coalesce(e.other is not null or met[e.parent], false) as late
        from unnest(edges) with ordinality as e (child, parent, other, need, field, nth)
        where not coalesce(met[e.child], false)
    ), listed as (
        insert into dibs.ended_list (ids)
        select array_agg(l.parent)
        from (
            select p.parent, row_number() over () - 1 as place
            from (select distinct e.parent from edge e where e.late) p
        ) l
        group by l.place / 5000
    )
    insert into dibs.edge (child, parent, need, open)
    select e.child, e.parent, coalesce((array_agg(e.need order by e.nth) filter (where e.need <> 'ended'))[1], 'ended'), true
    from edge e
    group by e.child, e.parent;

    with edge as materialized (
        select e.child, e.parent
        from unnest(edges) e
        where not coalesce(met[e.child], false)
    ), meant as materialized (
        select
            j.id,
            min(j.id) over () as flow,
            j.gate as old_gate,
            o.ord in (select e.child from edge e) as waits,
            o.ord in (select e.parent from edge e where e.parent is not null) as followed
        from unnest(ids) with ordinality as o (id, ord)
        join dibs.job j on j.id = any (array[o.id])
        where not coalesce(met[o.ord], false)
    ), changed as (
        update dibs.job j
        set
            flow = m.flow,
            followed = m.followed,
            gate = case when m.waits then 5 else j.gate end
        from meant m
        where j.id = any (array[m.id])
        returning j.queue, m.waits, m.old_gate
    )
    insert into dibs.tally (queue, waiting, blocked)
    select queue, - count(*), count(*)
    from changed
    where waits and old_gate <> 1
    group by queue;
end
$$;

-- Enqueues checked jobs, and returns by their places: ids, whether the job has met a holder of its
-- key, and what it has done to that one; null where no job has a key.
create function dibs.enqueue_jobs(place text, jobs dibs.new_job[], out ids bigint[], out met boolean[], out did text[])
language plpgsql as $$
declare
    too_big boolean;
    long boolean; -- a payload may have 1001 pairs of brackets
    wide boolean;
    grouped boolean;
    new boolean;
    has_keys boolean;
    attempts jsonb; -- of queues that do not have the usual number
    counts jsonb;
    flows boolean; -- a job has a ref, or comes after others
    edges dibs.new_edge[];
    at timestamptz;
begin
    select
        bool_or(k.largest > coalesce(q.payload_limit, 1048576)),
        bool_or(k.largest > 2000),
        bool_or(k.wide),
        bool_or(k.grouped),
        bool_or(q.name is null or k.grouped and not q.grouped),
        bool_or(k.has_keys),
        bool_or(k.flows),
        jsonb_object_agg(k.queue, q.max_attempts) filter (where q.max_attempts <> 25),
        jsonb_object_agg(k.queue, k.n)
    into too_big, long, wide, grouped, new, has_keys, flows, attempts, counts
    from (
        select
            n.queue,
            count(*) as n,
            max(octet_length(n.payload)) as largest,
            max(octet_length(n.payload) + coalesce(octet_length(n.metadata), 0)) >= 512 as wide,
            count(n.group_key) > 0 as grouped,
            count(n.unique_key) > 0 as has_keys,
            count(n.ref) + count(n.after) > 0 as flows
        from unnest(jobs) n
        group by n.queue
    ) k
    left join dibs.queue q on q.name = k.queue;
    if flows then
        edges := dibs.find_edges(place, jobs);
    end if;
    if too_big then
        perform dibs.refuse_payloads(place, jobs);
    elsif long then
        perform dibs.check_depth(format(place, k.ord - 1) || 'payload', k.payload)
        from dibs.numbered(jobs) k
        where octet_length(k.payload) > 2000;
    end if;
    if cardinality(edges) > 0 then
        perform dibs.refuse_missing(place, edges);
    end if;
    if has_keys then
        select u.ids, u.met, u.did into ids, met, did
        from dibs.insert_unique(jobs, wide, grouped, new, attempts) u;
    else
        at := dibs.clock();
        ids := dibs.insert_jobs(jobs, wide, attempts, at);
        perform dibs.note_jobs(jobs, ids, wide, grouped, new, case when not grouped then counts end, at);
    end if;
    if cardinality(edges) > 0 then
        perform dibs.link_jobs(ids, met, edges);
    end if;
end
$$;

-- Enqueues a job and returns its id, or that of the job that holds its unique key.
create function dibs.enqueue(
    queue text,
    payload json default 'null',
    kind text default null, -- the queue's name
    priority int default null, -- 255
    delay interval default null,
    run_at timestamptz default null,
    group_key text default null,
    unique_key text default null,
    unique_until text default null,
    unique_for interval default null,
    unique_window text default null,
    if_held text default null,
    delay_limit interval default null,
    max_attempts int default null, -- the queue's
    metadata json default null,
    after bigint[] default null, -- ids of jobs that must be completed
    after_end bigint[] default null, -- ids of jobs that must have ended
    after_failed bigint[] default null -- ids of jobs that must be dead or cancelled
) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    j dibs.new_job;
    q record;
    wide boolean;
    new boolean;
    at timestamptz;
    starts timestamptz;
    gate int := 0;
    new_id bigint;
    told text;
begin
    -- One expression costs the first call of a session less than many.
    j := row(
        coalesce(nullif(queue, ''), 'default'),
        coalesce(nullif(kind, ''), nullif(queue, ''), 'default'),
        coalesce(payload::text, 'null'),
        metadata::text,
        coalesce(priority, 255),
        case when delay is null then 0 else dibs.microseconds('delay', delay) end,
        run_at,
        nullif(max_attempts, 0),
        nullif(group_key, ''),
        nullif(unique_key, ''),
        nullif(unique_until, ''),
        case when unique_for is null then 0 else dibs.microseconds('unique_for', unique_for) end,
        nullif(unique_window, ''),
        nullif(if_held, ''),
        case when delay_limit is null then 0 else dibs.microseconds('delay_limit', delay_limit) end,
        null,
        null
    );
    if coalesce(unique_until, unique_window, if_held) is not null or coalesce(unique_for, delay_limit) is not null or coalesce(after, after_end, after_failed) is not null then
        perform dibs.check_job('', j);
        if coalesce(after, after_end, after_failed) is not null then
            j.after := array(
                select row(format('%s[%s]', g.field, i.nth - 1), i.id, null, g.need)::dibs.new_dep
                from (values ('after', after, 'completed'), ('after_end', after_end, 'ended'), ('after_failed', after_failed, 'failed')) as g (field, ids, need)
                cross join lateral unnest(g.ids) with ordinality as i (id, nth)
            );
        end if;
        if j.period_us <> 0 or j.unique_window is not null or j.if_held in ('replace', 'push') or cardinality(j.after) > 0 then
            return (select e.ids[1] from dibs.enqueue_jobs('', array[j]) e);
        end if;
    elsif octet_length(j.queue) > 255 or octet_length(j.kind) > 255 or octet_length(j.group_key) > 255 or octet_length(j.unique_key) > 512
        or strpos(j.queue, '://') > 0 or j.priority < 0 or j.priority > 32767
        or j.max_attempts is not null or j.delay_us <> 0 or j.run_at is not null or j.metadata is not null
        or concat(j.queue, j.kind, j.group_key, j.unique_key) collate "C" ~ '[^ -~]'
    then
        perform dibs.check_job('', j);
    end if;

    select true as known, s.payload_limit, s.max_attempts, s.grouped into q
    from dibs.queue s
    where s.name = j.queue;
    new := q.known is null or j.group_key is not null and not q.grouped;
    if octet_length(j.payload) > coalesce(q.payload_limit, 1048576) then
        perform dibs.refuse_payloads('', array[j]);
    elsif octet_length(j.payload) > 2000 then
        perform dibs.check_depth('payload', j.payload);
    end if;
    wide := octet_length(j.payload) + coalesce(octet_length(j.metadata), 0) >= 512;
    at := dibs.clock();
    starts := coalesce(j.run_at, at + j.delay_us * interval '1 microsecond');
    if j.group_key is not null then
        gate := case when starts <= at then 1 else 2 end;
    end if;
    for round in 1 .. 20 loop
        insert into dibs.job (queue, kind, payload, metadata, priority, run_at, gate, max_attempts, group_key, unique_key, unique_until, unique_held, created_at)
        values (j.queue, j.kind, case when not wide then j.payload end, case when not wide then j.metadata end, j.priority, greatest(starts, at),
            gate, coalesce(j.max_attempts, q.max_attempts, 25), j.group_key,
            j.unique_key, case when j.unique_key is not null then coalesce(j.unique_until, 'finished') end, j.unique_key is not null, at)
        on conflict (queue, unique_key) where unique_held do nothing
        returning id into new_id;
        exit when new_id is not null;
        select h.id into new_id
        from dibs.job h
        where h.queue = j.queue and h.unique_key = j.unique_key and h.unique_held
        order by h.id desc -- one snapshot may show two: holders.sql
        limit 1;
        if found then
            return new_id;
        end if;
    end loop;
    if new_id is null then
        perform dibs.refuse_key(j.unique_key);
    end if;
    insert into dibs.tally (queue, waiting, blocked, enqueued)
    values (j.queue, case when gate <> 1 then 1 else 0 end, case when gate = 1 then 1 end, 1);
    if wide then
        insert into dibs.payload (id, payload, metadata)
        values (new_id, j.payload, j.metadata);
    end if;
    if gate = 1 or new then
        insert into dibs.wake_list (queue, groups)
        values (j.queue, case when j.group_key is null then '{}' else array[j.group_key] end);
    end if;
    told := dibs.tell(j.queue, new);
    return new_id;
end
$$;

-- Reads the jobs of a JSON array one by one, and refuses what is no job.
create function dibs.read_jobs(given text) returns dibs.new_job[]
language plpgsql as $$
declare
    n int := json_array_length(given::json);
begin
    if n > 10000 then
        perform dibs.refuse('jobs', 'are ' || n || ', the limit of one call is 10000; split them');
    end if;
    return (
        select array_agg(dibs.read_job(format('jobs[%s]', a.ord - 1), a.job, h.marks) order by a.ord)
        from dibs.hide(given) h
        cross join lateral json_array_elements(h.hidden::json) with ordinality as a (job, ord)
    );
end
$$;

-- The server cannot take JSON apart that has the escape of NUL or of half a pair in it, so escapes are hidden from it
-- behind two characters that the text does not have: marks. They are null if none is hidden.
create function dibs.hide(given text, out hidden text, out marks text[])
language plpgsql immutable as $$
begin
    hidden := given;
    if given ~ E'\\\\u(0000|[dD][89a-fA-F])' then
        marks := array(
            select chr(c)
            from generate_series(57344, 63743) c
            where strpos(given, chr(c)) = 0
            limit 2
        );
        hidden := replace(replace(given, E'\\\\', marks[1]), E'\\u', marks[2]);
    end if;
end
$$;

create function dibs.unhidden(hidden text, marks text[]) returns text
language sql immutable as $$
    select case when marks is null then hidden else replace(replace(hidden, marks[2], E'\\u'), marks[1], E'\\\\') end
$$;

-- A JSON string as text. NUL, which no text can hold, becomes U+0001: see shown_nul.
create function dibs.decoded(field text, given text) returns text
language plpgsql immutable as $$
begin
    return regexp_replace(given, E'(?<!\\\\)((?:\\\\\\\\)*)\\\\u0000', E'\\1\\\\u0001', 'g')::json #>> '{}';
exception when untranslatable_character or invalid_text_representation then
    perform dibs.refuse(field, E'has half of a surrogate pair, such as \\ud800 alone, which is no character');
end
$$;

-- The members of an object. place is what errors call it; marks hide escapes, or are null.
create function dibs.members(place text, given json, marks text[]) returns table (key text, value text)
language sql immutable as $$
    select
        case when marks is null or strpos(o.key, marks[1]) + strpos(o.key, marks[2]) = 0 then o.key else dibs.decoded(place, dibs.unhidden(to_json(o.key)::text, marks)) end,
        dibs.unhidden(o.value::text, marks)
    from json_each(given) o
$$;

-- Reads a job, member by member. place is what errors call it; marks hide escapes, or are null.
create function dibs.read_job(place text, given json, marks text[]) returns dibs.new_job
language plpgsql as $$
declare
    j dibs.new_job;
    m record;
    seen text[] := '{}';
begin
    if json_typeof(given) <> 'object' then
        perform dibs.refuse(place, 'is not a JSON object of a job: it must be an object, and is ' || dibs.json_kind(given));
    end if;
    j.payload := 'null';
    j.priority := 255;
    j.delay_us := 0;
    j.period_us := 0;
    j.limit_us := 0;
    for m in
        select o.key, o.value
        from dibs.members(place, given, marks) o
    loop
        if m.key = any (seen) then
            perform dibs.refuse(place || '.' || dibs.field_name(m.key), 'is given twice');
        end if;
        seen := seen || m.key;
        case m.key
            when 'payload' then j.payload := m.value;
            when 'metadata' then j.metadata := m.value;
            when 'queue' then j.queue := dibs.read_text(place || '.queue', m.value);
            when 'kind' then j.kind := dibs.read_text(place || '.kind', m.value);
            when 'group' then j.group_key := dibs.read_text(place || '.group', m.value);
            when 'unique_key' then j.unique_key := dibs.read_text(place || '.unique_key', m.value);
            when 'unique_until' then j.unique_until := dibs.read_text(place || '.unique_until', m.value);
            when 'unique_window' then j.unique_window := dibs.read_text(place || '.unique_window', m.value);
            when 'if_held' then j.if_held := dibs.read_text(place || '.if_held', m.value);
            when 'priority' then j.priority := coalesce(dibs.read_int(place || '.priority', m.value), 255);
            when 'max_attempts' then j.max_attempts := nullif(dibs.read_int(place || '.max_attempts', m.value), 0);
            when 'delay' then j.delay_us := dibs.read_duration(place || '.delay', m.value);
            when 'unique_for' then j.period_us := dibs.read_duration(place || '.unique_for', m.value);
            when 'delay_limit' then j.limit_us := dibs.read_duration(place || '.delay_limit', m.value);
            when 'run_at' then j.run_at := dibs.read_time(place || '.run_at', m.value);
            when 'ref' then j.ref := dibs.read_text(place || '.ref', m.value);
            when 'after' then j.after := dibs.read_after(place || '.', m.value);
            else perform dibs.refuse(place || '.' || dibs.field_name(m.key), 'is an unknown field; the object has queue, kind, payload, metadata, priority, delay, run_at, max_attempts, group, unique_key, unique_until, unique_for, unique_window, if_held, delay_limit, ref, after');
        end case;
    end loop;
    j.queue := coalesce(j.queue, 'default');
    j.kind := coalesce(j.kind, j.queue);
    perform dibs.check_job(place || '.', j);
    return j;
end
$$;

-- Reads what a job comes after: null for JSON's null and for an empty list.
create function dibs.read_after(place text, given text) returns dibs.new_dep[]
language plpgsql immutable as $$
begin
    if left(given, 1) <> '[' then
        if given <> 'null' then
            perform dibs.refuse(place || 'after', 'must be a list, and is ' || dibs.json_kind(given::json));
        end if;
        return null;
    elsif json_array_length(given::json) > 100000 then
        perform dibs.refuse(place || 'after', 'has ' || json_array_length(given::json) || ' items, the limit is 100000');
    end if;
    return (
        select array_agg(dibs.read_dep(place, 'after[' || a.nth - 1 || ']', a.dep, h.marks) order by a.nth)
        from dibs.hide(given) h
        cross join lateral json_array_elements(h.hidden::json) with ordinality as a (dep, nth)
    );
end
$$;

-- Reads an entry of after: a ref in a string, an id as a number, or an object.
create function dibs.read_dep(place text, entry text, given json, marks text[]) returns dibs.new_dep
language plpgsql immutable as $$
declare
    field text := place || entry;
    written text := dibs.unhidden(given::text, marks);
    d dibs.new_dep;
    m record;
    seen text[] := '{}';
begin
    d.field := entry;
    if marks is not null then
        perform dibs.decoded(field, written);
    end if;
    if left(written, 1) = '"' then
        d.ref := dibs.read_text(field || '.ref', written);
    elsif left(written, 1) = '{' then
        for m in
            select o.key, o.value
            from dibs.members(field, given, marks) o
        loop
            if m.key = any (seen) then
                perform dibs.refuse(field || '.' || dibs.field_name(m.key), 'is given twice');
            end if;
            seen := seen || m.key;
            case m.key
                when 'ref' then d.ref := dibs.read_text(field || '.ref', m.value);
                when 'id' then
                    continue when m.value = 'null';
                    if m.value !~ '^"?[-+]?[0-9]{1,19}"?$' or trim(m.value, '"')::numeric not between -9223372036854775808 and 9223372036854775807 then
                        perform dibs.refuse(field || '.id', 'an id must be a whole number, or a string of one, got ' || left(m.value, 40));
                    end if;
                    d.id := trim(m.value, '"')::bigint;
                when 'on' then d.need := dibs.read_text(field || '.on', m.value);
                else perform dibs.refuse(field || '.' || dibs.field_name(m.key), 'is an unknown field; the object has ref, id, on');
            end case;
        end loop;
    elsif left(written, 1) !~ '[-0-9]' then
        perform dibs.refuse(field, 'must be a ref in a string, an id as a number, or an object such as {"ref": "page", "on": "ended"}, got ' || left(written, 40));
    elsif written !~ '^-?[0-9]{1,19}$' or written::numeric not between -9223372036854775808 and 9223372036854775807 then
        perform dibs.refuse(field, 'an id must be a whole number, got ' || left(written, 40));
    else
        d.id := written::bigint;
    end if;
    return d;
end
$$;

-- The name of a field for a message.
create function dibs.field_name(given text) returns text
language sql immutable as $$
    select case when given ~ '^[A-Za-z0-9_]{1,60}$' then given else replace(dibs.quoted(left(given, 60)), E'\\x01', E'\\x00') end
$$;

-- A JSON string as text; null for JSON's null and for an empty one.
create function dibs.read_text(field text, given text) returns text
language plpgsql immutable as $$
declare
    read text;
begin
    if given <> 'null' and left(given, 1) <> '"' then
        perform dibs.refuse(field, 'must be a string, and is ' || dibs.json_kind(given::json));
    elsif strpos(given, E'\\u') = 0 then
        return nullif(given::json #>> '{}', '');
    end if;
    read := dibs.decoded(field, given);
    if given ~ E'(?<!\\\\)(\\\\\\\\)*\\\\u0000' then
        perform dibs.refuse(field, E'must not contain control characters, has ''\\x00'' in ' || replace(dibs.quoted(read), E'\\x01', E'\\x00'));
    end if;
    return nullif(read, '');
end
$$;

create function dibs.read_int(field text, given text) returns bigint
language plpgsql immutable as $$
begin
    if given = 'null' then
        return null;
    elsif left(given, 1) !~ '[-0-9]' then
        perform dibs.refuse(field, 'must be a whole number, and is ' || dibs.json_kind(given::json));
    elsif given !~ '^-?[0-9]{1,19}$' or given::numeric not between -9223372036854775808 and 9223372036854775807 then
        perform dibs.refuse(field, 'must be a whole number, and is ' || left('a number ' || given, 43));
    end if;
    return given::bigint;
end
$$;

-- Microseconds of a JSON number of seconds, or of a string such as "90s", "1h30m" or "14d". A part of
-- one is rounded.
create function dibs.read_duration(field text, given text) returns bigint
language plpgsql immutable as $$
declare
    us numeric := 0;
    part text[];
begin
    if given = 'null' then
        return 0;
    elsif given ~ '^[-0-9]' then
        us := case
            when given ~ '^-?[0.]+([eE]|$)' or given ~ '[eE]-[0-9]{3}' then 0
            when length(given) < 1000 and given !~ '[eE][+]?[0-9]{3}' then given::numeric * 1000000
        end;
        if us is null or abs(us) > 4611686018427388 then
            perform dibs.refuse(field, left(given, 40) || ' seconds are too many');
        end if;
        return round(us);
    elsif left(given, 1) <> '"' then
        perform dibs.refuse(field, left(given, 40) || ' is no duration; write a number of seconds, or a string such as "90s"');
    end if;
    given := coalesce(dibs.read_text(field, given), '');
    if length(given) < 1000 and given ~ '^([0-9]+d([+]?(([0-9]+([.][0-9]*)?|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h))+|[-+]?0)?|[-+]?(([0-9]+([.][0-9]*)?|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h))+|[-+]?0)$' then
        for part in select regexp_matches(given, '([0-9]*[.]?[0-9]*)(ns|us|µs|μs|ms|s|m|h|d)', 'g') loop
            us := us + part[1]::numeric * case
                when part[2] = 'ns' then 0.001
                when part[2] in ('us', 'µs', 'μs') then 1
                when part[2] = 'ms' then 1000
                when part[2] = 's' then 1000000
                when part[2] = 'm' then 60000000
                when part[2] = 'h' then 3600000000
                else 86400000000
            end;
        end loop;
        if us <= 9223372036854775.807 then
            return round(case when left(given, 1) = '-' then - us else us end);
        end if;
    end if;
    perform dibs.refuse(field, dibs.quoted(left(given, 40)) || ' is no duration; write 250ms, 90s, 15m, 12h, 14d or 1h30m');
end
$$;

create function dibs.read_time(field text, given text) returns timestamptz
language plpgsql immutable as $$
declare
    parts text[];
begin
    if given = 'null' then
        return null;
    elsif left(given, 1) <> '"' then
        perform dibs.refuse(field, 'a time must be written as "2026-11-21T08:30:00Z", in a string');
    end if;
    given := coalesce(dibs.read_text(field, given), '');
    parts := regexp_match(given, '^(-?[0-9]{4,6})(-[0-9][0-9]-[0-9][0-9])T((?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9])([.][0-9]+)?(Z|[-+](?:0[0-9]|1[0-5]):[0-5][0-9])$');
    if parts is not null then
        begin -- other years are refused with the job
            if parts[1]::int < 1 or parts[1]::int > 9999 then
                return ('9999' || parts[2] || ' ' || parts[3] || parts[5])::timestamptz + make_interval(years => parts[1]::int - 9999);
            end if;
            return (parts[1] || parts[2] || ' ' || parts[3] || coalesce(left(parts[4], 7), '') || parts[5])::timestamptz;
        exception when datetime_field_overflow or invalid_datetime_format or invalid_time_zone_displacement_value then
            null;
        end;
    end if;
    perform dibs.refuse(field, 'a time must be written as "2026-11-21T08:30:00Z", got ' || dibs.quoted(left(given, 40)));
end
$$;

-- Reads the jobs of a JSON array in one go, if they are written in the usual way. Otherwise it
-- returns null, and read_jobs, which takes longer, reads them or says what is wrong.
create function dibs.read_simple_jobs(jobs json) returns dibs.new_job[]
language plpgsql as $$
declare
    has_text boolean; -- a payload is a text, which the server has unescaped and escaped again
    fields bigint;
    size bigint; -- of the fields that were read, without blanks
    names text;
    checked boolean;
    exact boolean;
    out dibs.new_job[];
begin
    select
        array_agg(r.job),
        bool_or(starts_with(r.payload, '"')),
        sum(num_nonnulls(r.queue, r.kind, r.payload, r.metadata, r.priority, r.delay, r.max_attempts, r.group_key, r.unique_key, r.ref, r.after) + r.rare),
        sum(2 + coalesce(octet_length(r.queue) + 11, 0) + coalesce(octet_length(r.kind) + 10, 0) + coalesce(octet_length(r.payload) + 11, 0)
            + coalesce(octet_length(r.metadata) + 12, 0) + coalesce(octet_length(r.priority) + 12, 0) + coalesce(octet_length(r.delay) + 9, 0)
            + coalesce(octet_length(r.max_attempts) + 16, 0) + coalesce(octet_length(r.group_key) + 11, 0) + coalesce(octet_length(r.unique_key) + 16, 0)
            + coalesce(octet_length(r.ref) + 9, 0) + coalesce(octet_length(r.after) + 9, 0)) + 1,
        string_agg(concat_ws(',', '', r.queue, r.kind, r.group_key, r.unique_key, r.ref), '') || ',',
        bool_and(case when r.rare > 0 or r.odd then dibs.check_job('', r.job) is not null end)
    into out, has_text, fields, size, names, checked
    from (
        select
            x.*,
            row(
                coalesce(x.queue, 'default'),
                coalesce(x.kind, x.queue, 'default'),
                coalesce(x.payload, 'null'),
                x.metadata,
                coalesce(x.priority::int, 255),
                case when x.delay is null then 0 when x.delay ~ '^[0-9]{1,8}([.][0-9]{1,6})?$' then x.delay::numeric * 1000000 else dibs.read_duration('', x.delay) end,
                case
                    when x.run_at ~ '^"[1-9][0-9]{3}-[0-9][0-9]-[0-9][0-9]T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,6})?(Z|[-+](0[0-9]|1[0-5]):[0-5][0-9])"$'
                        then split_part(x.run_at, '"', 2)::timestamptz
                    when x.run_at is not null then dibs.read_time('', x.run_at)
                end,
                nullif(x.max_attempts::int, 0),
                x.group_key,
                x.unique_key,
                x.unique_until,
                case when x.unique_for is null then 0 else dibs.read_duration('', x.unique_for) end,
                x.unique_window,
                x.if_held,
                case when x.delay_limit is null then 0 else dibs.read_duration('', x.delay_limit) end,
                x.ref,
                case when x.after is not null then dibs.read_after('', x.after) end
            )::dibs.new_job as job,
            num_nonnulls(x.run_at, x.unique_until, x.unique_for, x.unique_window, x.if_held, x.delay_limit) as rare,
            greatest(octet_length(x.queue), octet_length(x.kind), octet_length(x.group_key), octet_length(x.unique_key)) > 255
                or not starts_with(x.metadata, '{') or octet_length(x.metadata) > 2000
                or x.priority !~ '^[0-9]{1,4}$' or x.max_attempts !~ '^[0-9]{1,6}$' or x.delay !~ '^[0-9]{1,8}([.][0-9]{1,6})?$' as odd
        from (
            select
                e.queue,
                e.kind,
                e.payload::text,
                e.metadata::text,
                e.priority::text,
                e.delay::text,
                e.run_at::text,
                e.max_attempts::text,
                e."group" as group_key,
                e.unique_key,
                e.unique_until,
                e.unique_for::text,
                e.unique_window,
                e.if_held,
                e.delay_limit::text,
                e.ref,
                e.after::text
            from json_to_recordset(jobs) as e (queue text, kind text, payload json, metadata json, priority json, delay json, run_at json, max_attempts json,
                "group" text, unique_key text, unique_until text, unique_for json, unique_window text, if_held text, delay_limit json, ref text, after json)
            offset 0
        ) x
        offset 0
    ) r;
    if cardinality(out) > 10000 or names collate "C" ~ E'[\\u0001-\\u001f\\u007f-\\u009f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069]|://|,,'
        or has_text and (strpos(jobs::text, E'\\u') > 0 or strpos(jobs::text, E'\\/') > 0)
        or strpos(lower(jobs::text), '"dibs' || '.') > 0
    then
        return null;
    elsif names ~ ',([-0-9{[]|true|false)' then -- what was read as a name may be something else
        exact := (
            select count(*) = fields and bool_and(starts_with(m.value::text, '"') or not (m.key in ('queue', 'kind', 'group', 'unique_key', 'ref')))
            from json_array_elements(jobs) a
            cross join lateral json_each(a.value) m
        );
    else -- nothing else is in the text, if it is as long as what was read, or has as many fields
        exact := size = octet_length(jobs::text) or fields = (select count(*) from (select json_object_keys(json_array_elements(jobs))) k);
    end if;
    return case when exact then out end;
exception when others then -- an element is no object, breaks a rule, or has an escape that the server cannot read
    return null;
end
$$;

-- Enqueues the jobs of a JSON array of objects, with the fields that "dibs enqueue --jobs" takes,
-- and returns a row for each, in order: its id, and whether that is another job's that holds
-- its unique key.
create function dibs.enqueue_many(jobs json) returns table (id bigint, existing boolean, replaced boolean, pushed boolean)
language plpgsql security definer set search_path = pg_catalog, pg_temp set jit = off as $$
#variable_conflict use_column
declare
    given dibs.new_job[];
    done record;
begin
    if json_typeof(jobs) <> 'array' then
        perform dibs.refuse('jobs', 'must be a JSON array of objects, and is a JSON ' || json_typeof(jobs));
    end if;
    given := coalesce(dibs.read_simple_jobs(jobs), dibs.read_jobs(jobs::text));
    if given is null then
        return;
    end if;
    select e.ids, e.met, e.did into done
    from dibs.enqueue_jobs('jobs[%s].', given) e;
    return query
    select a.id, coalesce(a.met, false), coalesce(a.did = 'replace', false), coalesce(a.did = 'push', false)
    from (select unnest(done.ids) as id, unnest(done.met) as met, unnest(done.did) as did) a;
end
$$;

do $$
declare
    f regprocedure;
begin
    for f in
        select p.oid
        from pg_proc p
        join pg_class c on c.relnamespace = p.pronamespace
        where c.oid = 'dibs.job'::regclass
    loop
        execute format('revoke all on function %s from public', f);
    end loop;
end
$$;
