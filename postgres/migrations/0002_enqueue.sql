-- Functions that enqueue, for programs that have no dibs: see docs/howto/sql.md and
-- docs/design/0016-sql.md. Only enqueue and enqueue_many are to be called from outside.
-- Compatible with programs that know version 1.
--
-- They do what the Go code does (internal/checks, postgres/enqueue.go, postgres/unique.go), in
-- the same words. They run with the rights of the schema's owner and with a search_path of
-- their own, whatever the caller's. Texts with backslashes are written as E'', which no
-- setting of the caller changes.

-- A job to enqueue, checked, with its defaults; null where it says nothing.
create type dibs.new_job as (
    queue        text,
    kind         text,
    payload      text,
    metadata     text,
    priority     int,
    delay_us     bigint,
    run_at       timestamptz,
    max_attempts int,
    group_key    text,
    unique_key   text,
    unique_until text,
    period_us    bigint,
    unique_window text,
    if_held      text,
    limit_us     bigint
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
language plpgsql immutable strict as $$
begin
    if extract(month from given) <> 0 or extract(year from given) <> 0 then
        perform dibs.refuse(field, 'must be in days, hours or less, as months and years differ in length, got ' || given);
    end if;
    return trunc(least(greatest(extract(epoch from given)::numeric * 1000000, -9e18), 9e18))::bigint;
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
    perform dibs.check_text(place || 'queue', j.queue, 255);
    perform dibs.check_text(place || 'kind', j.kind, 255);
    perform dibs.check_text(place || 'group', j.group_key, 255);
    perform dibs.check_text(place || 'unique_key', j.unique_key, 512);
    if j.max_attempts < 0 or j.max_attempts > 1000000 then
        perform dibs.refuse(place || 'max_attempts', 'must be 1 to 1000000, or 0 for the queue''s, got ' || j.max_attempts);
    end if;
    if j.delay_us <> 0 and j.run_at is not null then
        perform dibs.refuse(place || 'delay', 'give either delay or run_at, not both');
    end if;
    perform dibs.check_delay(place || 'delay', j.delay_us);
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
    if j.unique_key is null then
        perform dibs.refuse(place || g.field, 'needs a unique_key')
        from (values (1, 'unique_until', j.unique_until is not null), (2, 'unique_for', coalesce(j.period_us, 0) <> 0), (3, 'unique_window', j.unique_window is not null),
            (4, 'if_held', j.if_held is not null), (5, 'delay_limit', coalesce(j.limit_us, 0) <> 0)) as g (ord, field, given)
        where g.given
        order by g.ord
        limit 1;
    else
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
        perform dibs.refuse(place || 'metadata', 'must be a JSON object, got ' || dibs.quoted(j.metadata));
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

-- Inserts checked jobs without unique keys, and returns their ids in order.
-- Parameters: the jobs, the time to take for now, from after the transaction has its number (see
--   enqueue.sql about it). It takes no lock that another enqueuer or a claimer needs.
create function dibs.insert_jobs(jobs dibs.new_job[], at timestamptz) returns bigint[]
language plpgsql as $$
declare
    ids bigint[];
begin
    with added as (
        insert into dibs.job (queue, kind, payload, metadata, priority, run_at, gate, max_attempts, group_key, created_at)
        select
            n.queue,
            n.kind,
            case when octet_length(n.payload) + coalesce(octet_length(n.metadata), 0) < 512 then n.payload end,
            case when octet_length(n.payload) + coalesce(octet_length(n.metadata), 0) < 512 then n.metadata end,
            n.priority,
            greatest(coalesce(n.run_at, at + n.delay_us * interval '1 microsecond'), at),
            case
                when n.group_key is null then 0
                when coalesce(n.run_at, at + n.delay_us * interval '1 microsecond') <= at then 1
                else 2
            end,
            n.max_attempts,
            n.group_key,
            at
        from unnest(jobs) with ordinality as n (queue, kind, payload, metadata, priority, delay_us, run_at, max_attempts, group_key,
            unique_key, unique_until, period_us, unique_window, if_held, limit_us, ord)
        order by n.ord
        returning id, queue, gate, group_key
    ), woken as (
        insert into dibs.wake_list (queue, groups)
        select g.queue, coalesce(array_agg(g.group_key) filter (where g.group_key is not null), '{}')
        from (
            select distinct a.queue, a.group_key, a.id / 500 as part
            from added a
            left join dibs.queue q on q.name = a.queue
            where a.gate = 1 or q.name is null or a.group_key is not null and not q.grouped
        ) g
        group by g.queue, g.part
    ), counted as (
        insert into dibs.tally (queue, waiting, blocked, enqueued)
        select
            queue,
            count(*) filter (where gate <> 1),
            nullif(count(*) filter (where gate = 1), 0),
            count(*)
        from added
        group by queue
    )
    select array_agg(a.id order by a.id) into ids
    from added a;
    insert into dibs.payload (id, payload, metadata)
    select ids[n.ord], n.payload, n.metadata
    from unnest(jobs) with ordinality as n (queue, kind, payload, metadata, priority, delay_us, run_at, max_attempts, group_key,
        unique_key, unique_until, period_us, unique_window, if_held, limit_us, ord)
    where octet_length(n.payload) + coalesce(octet_length(n.metadata), 0) >= 512;
    return ids;
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
-- takes the steps of postgres/unique.go, in the same order, with its statements.
create function dibs.insert_unique(jobs dibs.new_job[]) returns table (id bigint, existing boolean, replaced boolean, pushed boolean)
language plpgsql as $$
#variable_conflict use_column
declare
    n int := cardinality(jobs);
    ids bigint[] := array_fill(null::bigint, array[n]);
    kept boolean[] := array_fill(false, array[n]);
    did text[] := array_fill(''::text, array[n]);
    taken boolean[]; -- by place: the transaction has locked the key's period, and none holds it
    fresh boolean[]; -- by place: inserted in this round
    at timestamptz;
    r record;
begin
    select array_agg(not (coalesce(k.period_us, 0) <> 0 or k.unique_window is not null) order by k.ord) into taken
    from dibs.numbered(jobs) k;
    for round in 1 .. 20 loop
        fresh := array_fill(false, array[n]);
        for r in
            with locked as (
                insert into dibs.unique_window (queue, unique_key, until)
                select distinct k.queue, k.unique_key, '-infinity'::timestamptz
                from dibs.numbered(jobs) k
                where not taken[k.ord] and ids[k.ord] is null and not exists (
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
            join dibs.numbered(jobs) k on k.queue = l.queue and k.unique_key = l.unique_key
            where coalesce(k.period_us, 0) <> 0 or k.unique_window is not null
        loop
            taken[r.ord] := true;
        end loop;
        at := case when pg_current_xact_id() is not null then clock_timestamp() end;
        for r in
            select u.ord, u.id
            from dibs.insert_absent(jobs, array(
                select k.ord
                from dibs.numbered(jobs) k
                where ids[k.ord] is null and taken[k.ord]
                order by k.ord
            ), at) u
        loop
            ids[r.ord] := r.id;
            fresh[r.ord] := true;
        end loop;
        update dibs.unique_window w
        set
            until = dibs.period_end(k.period_us, k.unique_window, at),
            job = ids[k.ord]
        from dibs.numbered(jobs) k
        where fresh[k.ord] and (coalesce(k.period_us, 0) <> 0 or k.unique_window is not null)
            and w.queue = k.queue and w.unique_key = k.unique_key;
        for r in
            select m.place, m.job, m.did
            from dibs.meet_holders(jobs, ids, fresh, taken, at) m
        loop
            ids[r.place] := r.job;
            kept[r.place] := true;
            did[r.place] := r.did;
        end loop;
        if array_position(ids, null) is null then
            return query
            select a.id, a.existing, a.did = 'replace', a.did = 'push'
            from unnest(ids, kept, did) with ordinality as a (id, existing, did, ord)
            order by a.ord;
            return;
        end if;
    end loop;
    raise exception using
        errcode = 'serialization_failure',
        message = 'unique key ' || dibs.quoted(jobs[array_position(ids, null)].unique_key) || ' changed hands 20 times during one call: database unavailable';
end
$$;

create function dibs.numbered(jobs dibs.new_job[]) returns table (
    queue text, kind text, payload text, metadata text, priority int, delay_us bigint, run_at timestamptz, max_attempts int, group_key text,
    unique_key text, unique_until text, period_us bigint, unique_window text, if_held text, limit_us bigint, ord int
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
        n.ord::int
    from unnest(jobs) with ordinality as n (queue, kind, payload, metadata, priority, delay_us, run_at, max_attempts, group_key,
        unique_key, unique_until, period_us, unique_window, if_held, limit_us, ord)
$$;

-- Inserts the jobs at some places whose keys no live job holds: enqueue_unique.sql.
create function dibs.insert_absent(jobs dibs.new_job[], places int[], at timestamptz) returns table (ord int, id bigint)
language plpgsql as $$
#variable_conflict use_column
begin
    return query
    with asked as materialized (
        select nextval('dibs.job_id') as id, s.*
        from (
            select
                k.*,
                octet_length(k.payload) + coalesce(octet_length(k.metadata), 0) >= 512 as wide,
                coalesce(k.run_at, at + k.delay_us * interval '1 microsecond') as starts
            from dibs.numbered(jobs) k
            where k.ord = any (places)
            order by k.ord
        ) s
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
            a.max_attempts,
            a.group_key,
            a.unique_key,
            case when a.unique_key is not null then coalesce(a.unique_until, 'finished') end,
            a.unique_key is not null,
            at
        from asked a
        order by a.queue, a.unique_key, a.ord
        on conflict (queue, unique_key) where unique_held do nothing
        returning id, queue, gate, group_key
    ), wide as (
        insert into dibs.payload (id, payload, metadata)
        select a.id, a.payload, a.metadata
        from asked a
        where a.wide and a.id in (select b.id from added b)
    ), woken as (
        insert into dibs.wake_list (queue, groups)
        select g.queue, coalesce(array_agg(g.group_key) filter (where g.group_key is not null), '{}')
        from (
            select distinct a.queue, a.group_key, a.id / 500 as part
            from added a
            left join dibs.queue q on q.name = a.queue
            where a.gate = 1 or q.name is null or a.group_key is not null and not q.grouped
        ) g
        group by g.queue, g.part
    ), counted as (
        insert into dibs.tally (queue, waiting, blocked, enqueued)
        select
            queue,
            count(*) filter (where gate <> 1),
            nullif(count(*) filter (where gate = 1), 0),
            count(*)
        from added
        group by queue
    )
    select a.ord, a.id
    from asked a
    join added b on b.id = a.id;
end
$$;

-- The keys of jobs that have no id yet, and where to look for their holders. If a job without a
-- period was inserted in this round, those before it that a period kept out do not meet it.
create function dibs.held_keys(jobs dibs.new_job[], ids bigint[], fresh boolean[], taken boolean[]) returns table (
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
        where fresh[i.ord] and i.unique_key is not null
        group by i.queue, i.unique_key
    ) f on f.queue = k.queue and f.unique_key = k.unique_key
    where ids[k.ord] is null
    group by 1, 2, 3
$$;

-- Has jobs without an id meet the holders of their keys: lock_holders.sql, checks.Holder and
-- holders.sql. It leaves out those whose keys are free by now.
create function dibs.meet_holders(jobs dibs.new_job[], ids bigint[], fresh boolean[], taken boolean[], at timestamptz)
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
begin
    if array_position(ids, null) is null then
        return;
    end if;
    for h in
        with found as materialized (
            select e.places, e.in_period, coalesce((
                select l.id
                from dibs.job l
                where e.live and l.queue = e.queue and l.unique_key = e.unique_key and l.unique_held
            ), (
                select w.job
                from dibs.unique_window w
                where e.in_period and w.queue = e.queue and w.unique_key = e.unique_key
            )) as id
            from dibs.held_keys(jobs, ids, fresh, taken) e
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
            return next;
        end loop;
        if whole or run <> h.run_at then
            perform dibs.change_holder(h.id, case when whole then becomes end, nullif(run, h.run_at), at);
        end if;
    end loop;
    return query
    select p.place, l.id, 'keep'
    from dibs.held_keys(jobs, ids, fresh, taken) e
    cross join lateral (
        select coalesce((
            select i.id
            from dibs.job i
            where e.live and i.queue = e.queue and i.unique_key = e.unique_key and i.unique_held
        ), (
            select w.job
            from dibs.unique_window w
            where e.in_period and w.queue = e.queue and w.unique_key = e.unique_key
        )) as id
        offset 0
    ) l
    cross join unnest(e.places) as p (place)
    where l.id is not null;
end
$$;

-- Changes a waiting job that this transaction has locked: replace.sql. It becomes another job, if
-- one is given, and starts at another time, if one is given.
create function dibs.change_holder(holder bigint, becomes dibs.new_job, starts timestamptz, at timestamptz) returns void
language sql as $$
    with meant as materialized (
        select
            j.id,
            j.gate as old_gate,
            j.group_key as old_group,
            (becomes).kind is not null as whole,
            octet_length((becomes).payload) + coalesce(octet_length((becomes).metadata), 0) >= 512 as wide,
            g.group_key,
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
            max_attempts = case when m.whole then (becomes).max_attempts else j.max_attempts end,
            excused = case when m.whole then j.attempt else j.excused end,
            group_key = m.group_key,
            run_at = m.run_at,
            gate = case when m.group_key is null or m.keeps then 0 when m.run_at <= at then 1 else 2 end,
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
        select queue, count(*) filter (where gate = 1) - count(*) filter (where old_gate = 1) as n
        from changed
        group by queue
    ) c
    where c.n <> 0
$$;

create function dibs.channel() returns text
language sql immutable as $$ select left('dibs:' || rtrim(replace('dibs.', '"', ''), '.'), 63) $$;

-- Wakes workers after the commit. A queue that has no settings yet, or is not known to have
-- groups, is looked after by those who listen, or by the next sweep.
create function dibs.tell(jobs dibs.new_job[]) returns void
language sql as $$
    select pg_notify(dibs.channel(), case when bool_or(k.name is null or k.groups and not k.grouped) then 'new ' else 'sql ' end
        || case when count(*) over () > 100 then '' else k.queue end)
    from (
        select q.name, q.grouped, j.queue, bool_or(j.group_key is not null) as groups
        from dibs.numbered(jobs) j
        left join dibs.queue q on q.name = j.queue
        group by q.name, q.grouped, j.queue
    ) k
    group by k.queue
$$;

-- Fills in the settings of the jobs' queues, and refuses payloads over their limits. place
-- begins the names of fields, such as jobs[%s]. of a batch.
create function dibs.fitted(place text, jobs dibs.new_job[]) returns dibs.new_job[]
language plpgsql as $$
declare
    big record;
    out dibs.new_job[];
begin
    select k.ord, k.queue, octet_length(k.payload) as size, case when octet_length(k.payload) > 67108864 then 67108864 else coalesce(q.payload_limit, 1048576) end as most into big
    from dibs.numbered(jobs) k
    left join dibs.queue q on q.name = k.queue
    where octet_length(k.payload) > coalesce(q.payload_limit, 1048576)
    order by octet_length(k.payload) <= 67108864, k.ord
    limit 1;
    if found then
        perform dibs.refuse(format(place, big.ord - 1) || 'payload', 'is ' || big.size || ' bytes, the limit of queue ' || dibs.quoted(big.queue) || ' is ' || big.most);
    end if;
    select array_agg(row(
        k.queue,
        k.kind,
        k.payload,
        k.metadata,
        coalesce(k.priority, 255),
        coalesce(k.delay_us, 0),
        k.run_at,
        coalesce(nullif(k.max_attempts, 0), q.max_attempts, 25),
        k.group_key,
        k.unique_key,
        k.unique_until,
        k.period_us,
        k.unique_window,
        k.if_held,
        k.limit_us
    )::dibs.new_job order by k.ord) into out
    from dibs.numbered(jobs) k
    left join dibs.queue q on q.name = k.queue;
    return out;
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
    metadata json default null
) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    j dibs.new_job;
    known boolean;
    most int;
    attempts int;
    groups boolean;
    wide boolean;
    at timestamptz;
    starts timestamptz;
    gate int := 0;
    new_id bigint;
    told text;
begin
    j.queue := coalesce(nullif(enqueue.queue, ''), 'default');
    j.kind := coalesce(nullif(enqueue.kind, ''), j.queue);
    j.payload := coalesce(enqueue.payload::text, 'null');
    j.metadata := enqueue.metadata::text;
    j.priority := coalesce(enqueue.priority, 255);
    j.delay_us := case when enqueue.delay is null then 0 else dibs.microseconds('delay', enqueue.delay) end;
    j.run_at := enqueue.run_at;
    j.max_attempts := enqueue.max_attempts;
    j.group_key := nullif(enqueue.group_key, '');
    if coalesce(unique_key, unique_until, unique_window, if_held) is not null or coalesce(unique_for, delay_limit) is not null then
        j.unique_key := nullif(enqueue.unique_key, '');
        j.unique_until := nullif(enqueue.unique_until, '');
        j.unique_window := nullif(enqueue.unique_window, '');
        j.if_held := nullif(enqueue.if_held, '');
        j.period_us := dibs.microseconds('unique_for', enqueue.unique_for);
        j.limit_us := dibs.microseconds('delay_limit', enqueue.delay_limit);
        perform dibs.check_job('', j);
        if j.unique_key is not null then
            return (select i.id from dibs.enqueue_jobs('', array[j]) i);
        end if;
    elsif octet_length(j.queue) > 255 or octet_length(j.kind) > 255 or octet_length(j.group_key) > 255
        or strpos(j.queue, '://') > 0 or j.priority < 0 or j.priority > 32767
        or j.max_attempts is not null or j.delay_us <> 0 or j.run_at is not null or j.metadata is not null
        or (j.queue || j.kind || coalesce(j.group_key, '')) collate "C" ~ E'[^ -~]'
    then
        perform dibs.check_job('', j);
    end if;
    select true, q.payload_limit, q.max_attempts, q.grouped into known, most, attempts, groups
    from dibs.queue q
    where q.name = j.queue;
    if octet_length(j.payload) > coalesce(most, 1048576) then
        perform dibs.fitted('', array[j]);
    end if;
    at := case when pg_current_xact_id() is not null then clock_timestamp() end;
    starts := coalesce(j.run_at, at + j.delay_us * interval '1 microsecond');
    if j.group_key is not null then
        gate := case when starts <= at then 1 else 2 end;
    end if;
    wide := octet_length(j.payload) + coalesce(octet_length(j.metadata), 0) >= 512;
    insert into dibs.job (queue, kind, payload, metadata, priority, run_at, gate, max_attempts, group_key, created_at)
    values (j.queue, j.kind, case when not wide then j.payload end, case when not wide then j.metadata end, j.priority, greatest(starts, at),
        gate, coalesce(nullif(j.max_attempts, 0), attempts, 25), j.group_key, at)
    returning id into new_id;
    insert into dibs.tally (queue, waiting, blocked, enqueued)
    values (j.queue, case when gate <> 1 then 1 else 0 end, case when gate = 1 then 1 end, 1);
    if wide then
        insert into dibs.payload (id, payload, metadata)
        values (new_id, j.payload, j.metadata);
    end if;
    if gate = 1 or known is null or j.group_key is not null and not groups then
        insert into dibs.wake_list (queue, groups)
        values (j.queue, case when j.group_key is null then '{}' else array[j.group_key] end);
    end if;
    told := pg_notify(dibs.channel(), case when known is null or j.group_key is not null and not groups then 'new ' else 'sql ' end || j.queue);
    return new_id;
end
$$;

-- Enqueues checked jobs.
create function dibs.enqueue_jobs(place text, jobs dibs.new_job[]) returns table (id bigint, existing boolean, replaced boolean, pushed boolean)
language plpgsql as $$
#variable_conflict use_column
declare
    all_jobs dibs.new_job[] := dibs.fitted(place, jobs);
begin
    if exists (select from dibs.numbered(all_jobs) k where k.unique_key is not null) then
        return query
        select u.id, u.existing, u.replaced, u.pushed
        from dibs.insert_unique(all_jobs) u;
    else
        return query
        select i.id, false, false, false
        from unnest(dibs.insert_jobs(all_jobs, case when pg_current_xact_id() is not null then clock_timestamp() end)) with ordinality as i (id, ord)
        order by i.ord;
    end if;
    perform dibs.tell(all_jobs);
end
$$;

-- Reads the jobs of a JSON array, member by member, and refuses what is no job. place is as in fitted.
create function dibs.read_jobs(given text) returns dibs.new_job[]
language plpgsql as $$
declare
    out dibs.new_job[];
    hidden text := given;
    marks text[] := '{}';
    e record;
    m record;
    j dibs.new_job;
    place text;
    seen text[];
begin
    -- The server cannot take an object apart that has the escape of NUL or of half a pair in it,
    -- so escapes are hidden from it behind characters that the text does not have.
    if given ~ E'\\\\u(0000|[dD][89a-fA-F])' then
        for c in 57344 .. 63743 loop
            if strpos(given, chr(c)) = 0 then
                marks := marks || chr(c);
                exit when cardinality(marks) = 2;
            end if;
        end loop;
        hidden := replace(replace(given, E'\\\\', marks[1]), E'\\u', marks[2]);
    end if;
    for e in
        select a.job, a.ord, json_typeof(a.job) as kind
        from json_array_elements(hidden::json) with ordinality as a (job, ord)
        order by a.ord
    loop
        place := format('jobs[%s]', e.ord - 1);
        if e.kind <> 'object' then
            perform dibs.refuse(place, 'must be a JSON object of a job, and is a JSON ' || e.kind);
        end if;
        j := null;
        j.delay_us := 0;
        j.payload := 'null';
        seen := '{}';
        for m in
            select o.key, case when cardinality(marks) = 2 then replace(replace(o.value::text, marks[2], E'\\u'), marks[1], E'\\\\') else o.value::text end as value
            from json_each(e.job) o
        loop
            if m.key = any (seen) then
                perform dibs.refuse(place, 'has the field ' || dibs.quoted(m.key) || ' twice');
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
                when 'priority' then j.priority := dibs.read_int(place || '.priority', m.value);
                when 'max_attempts' then j.max_attempts := dibs.read_int(place || '.max_attempts', m.value);
                when 'delay' then j.delay_us := dibs.read_duration(place || '.delay', m.value);
                when 'unique_for' then j.period_us := dibs.read_duration(place || '.unique_for', m.value);
                when 'delay_limit' then j.limit_us := dibs.read_duration(place || '.delay_limit', m.value);
                when 'run_at' then j.run_at := dibs.read_time(place || '.run_at', m.value);
                else perform dibs.refuse(place, 'has the unknown field ' || dibs.quoted(m.key)
                    || '; a job has queue, kind, payload, metadata, priority, delay, run_at, max_attempts, group, unique_key, unique_until, unique_for, unique_window, if_held, delay_limit');
            end case;
        end loop;
        j.queue := coalesce(j.queue, 'default');
        j.kind := coalesce(j.kind, j.queue);
        perform dibs.check_job(place || '.', j);
        out[e.ord] := j;
    end loop;
    return out;
end
$$;

-- A JSON string as text; null for JSON's null and for an empty one.
create function dibs.read_text(field text, given text) returns text
language plpgsql immutable as $$
begin
    if given <> 'null' and left(given, 1) <> '"' then
        perform dibs.refuse(field, 'must be a string, got ' || dibs.quoted(given));
    elsif given ~ E'\\\\u(0000|[dD][89a-fA-F])' then
        if given ~ E'\\\\u0000' then
            perform dibs.refuse(field, 'must not contain control characters, has U+0000');
        end if;
        begin
            return nullif(given::json #>> '{}', '');
        exception when untranslatable_character or invalid_text_representation then
            perform dibs.refuse(field, 'has half of a pair of surrogates: ' || dibs.quoted(given));
        end;
    end if;
    return nullif(given::json #>> '{}', '');
end
$$;

create function dibs.read_int(field text, given text) returns int
language plpgsql immutable as $$
begin
    if given = 'null' then
        return null;
    elsif given !~ '^-?[0-9]{1,9}$' then
        perform dibs.refuse(field, 'must be a whole number, got ' || dibs.quoted(given));
    end if;
    return given::int;
end
$$;

-- Microseconds of a JSON number of seconds, or of a string such as "90s", "1h30m" or "14d".
create function dibs.read_duration(field text, given text) returns bigint
language plpgsql immutable as $$
declare
    us numeric := 0;
    part text[];
begin
    if given = 'null' then
        return 0;
    elsif given ~ '^-?[0-9]{1,18}([.][0-9]{1,30})?([eE][-+]?[0-9]{1,2})?$' then
        us := given::numeric * 1000000;
    elsif given ~ '^"[-+]?([0-9]{1,9}d)?(([0-9]{1,18}([.][0-9]{0,18})?|[.][0-9]{1,18})(ns|us|µs|μs|ms|s|m|h))*"$' and given ~ '[a-z]' or given ~ '^"[-+]?0"$' then
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
        if given ~ '^"-' then
            us := - us;
        end if;
    else
        perform dibs.refuse(field, 'is no duration; write a number of seconds, or a string such as "90s", got ' || dibs.quoted(given));
    end if;
    return trunc(least(greatest(us, -9e18), 9e18))::bigint;
end
$$;

create function dibs.read_time(field text, given text) returns timestamptz
language plpgsql immutable as $$
declare
    parts text[] := regexp_match(given, '^"([0-9]{4}-[0-9]{2}-[0-9]{2})T([0-9]{2}:[0-9]{2}:[0-9]{2})([.][0-9]{1,6})?[0-9]*(Z|[-+][0-9]{2}:[0-9]{2})"$');
begin
    if given = 'null' then
        return null;
    elsif parts is not null and parts[1] >= '0001' and parts[2] < '24' then
        begin
            return (parts[1] || ' ' || parts[2] || coalesce(parts[3], '') || parts[4])::timestamptz;
        exception when datetime_field_overflow or invalid_datetime_format or invalid_time_zone_displacement_value then
            null;
        end;
    end if;
    perform dibs.refuse(field, 'must be a time written as "2026-11-21T08:30:00Z", got ' || dibs.quoted(given));
end
$$;

-- Reads the jobs of a JSON array in one go, if all are simple: they have only fields that are
-- read here, and texts without escapes. Otherwise it returns null. It costs a third of read_jobs.
create function dibs.read_simple_jobs(jobs json) returns dibs.new_job[]
language plpgsql as $$
declare
    given text := jobs::text;
    exact boolean := strpos(given, E'\\u') = 0 and strpos(given, E'\\/') = 0; -- the server writes texts as they were
    simple boolean;
    fields bigint;
    out dibs.new_job[];
begin
    if given ~ E'\\\\u(0000|[dD][89a-fA-F])' or given ~ '^[^{]*[^{ \t\r\n[]' then
        return null;
    end if;
    select
        array_agg(row(s.queue, s.kind, s.payload, null, s.priority, 0, null, null, s.group_key, null, null, null, null, null, null)::dibs.new_job order by s.ord),
        bool_and(s.simple),
        sum(s.fields)
    into out, simple, fields
    from (
        select
            coalesce(substr(r.queue, 2, length(r.queue) - 2), 'default') as queue,
            coalesce(substr(r.kind, 2, length(r.kind) - 2), substr(r.queue, 2, length(r.queue) - 2), 'default') as kind,
            coalesce(r.payload, 'null') as payload,
            case when r.priority ~ '^[0-9]{1,4}$' then r.priority::int end as priority,
            substr(r.group_key, 2, length(r.group_key) - 2) as group_key,
            r.ord,
            num_nonnulls(r.queue, r.kind, r.payload, r.priority, r.group_key) as fields,
            not (coalesce(r.queue, '') || ' ' || coalesce(r.kind, '') || ' ' || coalesce(r.group_key, '') collate "C" ~ E'[^ -~]|\\\\|:|""')
                and coalesce(left(r.queue, 1) = '"', true)
                and coalesce(left(r.kind, 1) = '"', true)
                and coalesce(left(r.group_key, 1) = '"', true)
                and coalesce(octet_length(r.queue) <= 257, true)
                and coalesce(octet_length(r.kind) <= 257, true)
                and coalesce(octet_length(r.group_key) <= 257, true)
                and (exact or coalesce(left(r.payload, 1) <> '"', true))
                and coalesce(r.priority ~ '^[0-9]{1,4}$', true) as simple
        from (
            select x.queue::text, x.kind::text, x.payload::text, x.priority::text, x."group"::text as group_key, x.ord
            from rows from (json_to_recordset(jobs) as (queue json, kind json, payload json, priority json, "group" json))
                with ordinality as x (queue, kind, payload, priority, "group", ord)
            offset 0
        ) r
    ) s;
    if simple and fields = (select count(*) from (select json_object_keys(json_array_elements(jobs))) k) then
        return out;
    end if;
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
    n int;
begin
    if json_typeof(jobs) <> 'array' then
        perform dibs.refuse('jobs', 'must be a JSON array of objects, and is a JSON ' || json_typeof(jobs));
    end if;
    n := json_array_length(jobs);
    if n > 10000 then
        perform dibs.refuse('jobs', 'are ' || n || ', the limit of one call is 10000; split them');
    elsif n > 0 then
        return query
        select j.id, j.existing, j.replaced, j.pushed
        from dibs.enqueue_jobs('jobs[%s].', coalesce(dibs.read_simple_jobs(jobs), dibs.read_jobs(jobs::text))) j;
    end if;
end
$$;

do $$
declare
    f regprocedure;
begin
    for f in
        select p.oid
        from pg_proc p
        where p.pronamespace = 'dibs'::regnamespace
    loop
        execute format('revoke all on function %s from public', f);
    end loop;
end
$$;
