package postgres_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/postgres"
)

// plantAll makes a schema that has, for each function and operator of the server that a list
// names, one with the same arguments that fails.
const plantAll = `
create schema planted;
grant all on schema planted to public;
do $$
declare
	f record;
begin
	for f in
		select p.proname, (select string_agg(format_type(a, null), ', ' order by o) from unnest(p.proargtypes) with ordinality as x (a, o)) as args
		from pg_proc p
		where p.pronamespace = 'pg_catalog'::regnamespace and p.prokind = 'f' and p.proname::text = any (string_to_array('WORDS', ' '))
			and not 'internal'::regtype = any (p.proargtypes) and not 'cstring'::regtype = any (p.proargtypes) and p.provariadic = 0
	loop
		begin
			execute format('create function planted.%I(%s) returns text language plpgsql as $f$ begin raise exception ''planted: %1$s''; end $f$', f.proname, f.args);
		exception when others then
			null; -- pseudo-types
		end;
	end loop;
	for f in
		select o.oprname, format_type(o.oprleft, null) as l, format_type(o.oprright, null) as r, format_type(o.oprresult, null) as result, row_number() over () as n
		from pg_operator o
		where o.oprnamespace = 'pg_catalog'::regnamespace and o.oprleft <> 0 and o.oprresult <> 0 and o.oprname::text = any (string_to_array('SIGNS', ' '))
	loop
		begin
			execute format('create function planted.operator_%s(%s, %s) returns %s language plpgsql as $f$ begin raise exception ''planted: an operator''; end $f$', f.n, f.l, f.r, f.result);
			execute format('create operator planted.%s (function = planted.operator_%s, leftarg = %s, rightarg = %s)', f.oprname, f.n, f.l, f.r);
		exception when others then
			null; -- pseudo-types
		end;
	end loop;
end
$$`

// hostile are settings under which texts, times and comparisons mean something else.
const hostile = `
set standard_conforming_strings = off; set datestyle = 'SQL, DMY'; set intervalstyle = 'sql_standard'; set timezone = 'Asia/Kathmandu';
set transform_null_equals = on; set array_nulls = off; set extra_float_digits = -15; set bytea_output = 'escape'; set quote_all_identifiers = on;
set plan_cache_mode = force_generic_plan; set enable_seqscan = off; set check_function_bodies = off;
create temp table job (id int); create temp table queue (name text); create temp table tally (queue text); create temp table pg_class (oid oid);
create domain pg_temp.text as pg_catalog.text check (false); create domain pg_temp.timestamptz as pg_catalog.timestamptz check (false);
set search_path = planted, pg_temp, pg_catalog, public`

// Nothing that a caller plants in the search_path, or sets, is used with the rights of the owner.
func TestNothingPlantedIsUsedByTheFunctions(t *testing.T) {
	t.Parallel()
	s, address := migrated(t, postgres.Options{})
	owner := connect(t, address)
	migration, err := os.ReadFile("migrations/0002_enqueue.sql")
	if err != nil {
		t.Fatal(err)
	}
	list := func(expression string) string {
		found := regexp.MustCompile(expression).FindAllString(string(migration), -1)
		slices.Sort(found)
		return strings.Join(slices.Compact(found), " ")
	}
	execute(t, owner, strings.NewReplacer("WORDS", list(`[a-z_]+`), "SIGNS", list(`[-+*/<>=~!@#%^&|?]+`)).Replace(plantAll))
	for kind, catalog := range map[string]string{"functions": "pg_proc where pronamespace", "operators": "pg_operator where oprnamespace"} {
		if n := one[int](t, owner, "select count(*) from "+catalog+" = 'planted'::regnamespace"); n < 50 {
			t.Fatalf("only %d %s were planted", n, kind)
		}
	}
	attacker := connect(t, pgtest.Role(t, address, "grant usage on schema dibs to ROLE", "grant execute on function dibs.enqueue, dibs.enqueue_many to ROLE"))
	execute(t, attacker, hostile)
	calls := strings.Split(strings.ReplaceAll(`
		dibs.enqueue('Q', '{"a":1}', priority => 7, delay => '1 12:00:00', group_key => 'g', metadata => '{"m":1}', max_attempts => 3);
		dibs.enqueue('Q', '"wide PAYLOAD"', run_at => '2100-12-31 23:59:59+00', unique_key => 'u');
		dibs.enqueue('Q', '2', unique_key => 'u', unique_for => '1:00:00', if_held => 'replace', run_at => '2100-01-01 00:00:00+00', delay_limit => '1 0:00:00');
		dibs.enqueue('Q', '3', unique_key => 'u', unique_window => 'week', if_held => 'push', delay => '2:00:00', delay_limit => '1 0:00:00');
		dibs.enqueue('Q', '4', unique_key => 'u');
		dibs.enqueue_many('[{"queue":"Q","payload":{"a":1}},{"queue":"Q","priority":9}]');
		dibs.enqueue_many(E'[{"queue":"Q","payload":"\\u0000\\ud800","delay":"1h30m","run_at":null},{"queue":"Q","run_at":"2100-02-03T04:05:06.789+05:45","unique_key":"v","unique_for":1.5}]');
		dibs.enqueue('Q', after => '{1}', after_failed => '{2}');
		dibs.enqueue_many(E'[{"queue":"Q","ref":"a"},{"queue":"Q","ref":"b","unique_key":"w"},{"queue":"Q","payload":"\\u0000","after":["a",1,{"ref":"b","on":"ended"}]}]')`,
		"PAYLOAD", strings.Repeat("p", 600)), ";")
	for _, call := range calls {
		execute(t, owner, "select "+strings.ReplaceAll(call, "Q", "normal"))
		if _, err := attacker.Exec(t.Context(), "select "+strings.ReplaceAll(call, "Q", "hostile"), pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Errorf("%s: %v", call, err)
		}
	}
	if e := code(t, attacker, "22023", `select dibs.enqueue('q', group_key => E'a\tb')`); e.Message != `group: must not contain control characters, has '\t' in "a\tb"` {
		t.Errorf("the error is %q", e.Message)
	}
	rows := func(queue string) string {
		return one[string](t, owner, `
			select string_agg(x, E'\n' order by x)
			from (
				select row(kind = queue, j.payload, j.metadata, priority, max_attempts, gate, group_key, unique_key, unique_until, unique_held, p.payload, p.metadata,
					case when run_at > created_at + interval '1 year' then (run_at at time zone 'UTC')::text else date_trunc('minute', run_at - created_at)::text end)::text
				from dibs.job j left join dibs.payload p using (id) where queue = $1
				union all
				select row(unique_key, date_trunc('minute', until + interval '30 s'))::text from dibs.unique_window where queue = $1
				union all
				select row(e.need, e.open, e.parent > 2, j.followed, j.flow is null)::text from dibs.edge e join dibs.job j on j.id = e.child where j.queue = $1
			) y (x)`, queue)
	}
	if want, got := rows("normal"), rows("hostile"); got != want {
		t.Errorf("the attacker's rows are\n%s, want\n%s", got, want)
	}
	if _, err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	consistent(t, s)
}

// A value that is no job is refused, even if its text is as long as that of a valid one and has as many fields.
func TestTheFunctionsRefuseWhatIsNoJob(t *testing.T) {
	t.Parallel()
	_, address := migrated(t, postgres.Options{})
	c := connect(t, address)
	for jobs, want := range map[string]string{
		`[ {"queue":5} ]`: "jobs[0].queue: must be a string",
		`[{"queue":"q","kind":true  },{"queue":"q"}]`:                "jobs[0].kind: must be a string",
		`[{"queue":"q","group":{"a":1}  }]`:                          "jobs[0].group: must be a string",
		`[{"queue":"q","unique_key":-7 ,"kind":"\/"}]`:               "jobs[0].unique_key: must be a string",
		`[{"queue":"q"},{"queue":5,"":1}]`:                           "jobs[1].queue: must be a string",
		`[{"queue":"q","kind":5,"kind":"k"}]`:                        "jobs[0].kind: must be a string",
		`[{"queue":"q","kind":"j","kind":"k"}]`:                      "jobs[0].kind: is given twice",
		`[{"queue":"q","kind":null,"kind":"k"}]`:                     "jobs[0].kind: is given twice",
		`[{"queue":"q","Kind":"k"}]`:                                 "jobs[0].Kind: is an unknown field",
		`[{"queue":"q","priority":"5"}]`:                             "jobs[0].priority: must be a whole number",
		`[{"queue":"q","priority":-1}]`:                              "jobs[0].priority: must be 0 to 32767, got -1",
		`[{"queue":"q"},{"queue":"q","max_attempts":1000001}]`:       "jobs[1].max_attempts: must be 1 to 1000000",
		`[{"queue":"q","delay":315360001}]`:                          "jobs[0].delay: must be at most 87600h0m0s",
		`[{"queue":"q","delay":1` + strings.Repeat("0", 2000) + `}]`: "jobs[0].delay: 1000",
		`[{"queue":"q","metadata":"{}"}]`:                            "jobs[0].metadata: must be a JSON object",
		`[{"queue":"q","metadata":{"dibs.schedule":"s"}}]`:           "jobs[0].metadata: must not have members whose names begin with \"dibs.\"",
		`[{"queue":"q","metadata":{"a":"","Dibs.Tick":"s"}}]`:        "jobs[0].metadata: must not have members whose names begin with \"dibs.\"",
		`[{"queue":"q","run_at":"2100-02-30T00:00:00Z"}]`:            "jobs[0].run_at: a time must be written as",
		`[{"queue":"q","run_at":"2100-02-03T24:00:00Z"}]`:            "jobs[0].run_at: a time must be written as",
		`[{"queue":"q","if_held":"keep"}]`:                           "jobs[0].if_held: needs a unique_key",
		`[{"queue":"q"},7]`:                                          "jobs[1]: is not a JSON object of a job",
	} {
		if e := code(t, c, "22023", "select dibs.enqueue_many('"+jobs+"')"); !strings.HasPrefix(e.Message, want) {
			t.Errorf("%s is refused with %q, want %q", jobs, e.Message, want)
		}
	}
	// These are valid jobs, though they are written in unusual ways.
	execute(t, c, `select dibs.enqueue_many(E'[{"queue":"","kind":"7","group":"true"}, {"queue":"a,,b","kind":"App\\\\Jobs\\\\Mail","unique_key":"-1","payload":"{\\"x\\":1}"}, `+
		`{"payload":"5","kind":null}, {"queue":"\\u00dc,[","payload":{"\\u0061": [ 1 ]}}]')`)
	got := one[string](t, c, "select string_agg(concat_ws(' ', queue, kind, group_key, unique_key, payload), '; ' order by id) from dibs.job")
	if want := `default 7 true null; a,,b App\Jobs\Mail -1 "{\"x\":1}"; default default "5"; Ü,[ Ü,[ {"\u0061": [ 1 ]}`; got != want {
		t.Errorf("enqueued %s, want %s", got, want)
	}
}

// An empty name counts as no name, wherever it stands in a batch.
func TestTheFunctionsTakeNoEmptyName(t *testing.T) {
	t.Parallel()
	_, address := migrated(t, postgres.Options{})
	c := connect(t, address)
	for _, jobs := range []string{
		`[{"queue":""}]`, `[{"kind":""}]`, `[{"group":""}]`, `[{"unique_key":""}]`, `[{"unique_key":""}]`,
		`[{"queue":"","kind":"","group":"","unique_key":""},{"queue":"default","unique_key":""}]`, `[{"unique_key":"","kind":"default"},{"kind":""}]`,
	} {
		if _, err := c.Exec(t.Context(), "select dibs.enqueue_many($1)", jobs); err != nil {
			t.Errorf("%s: %v", jobs, err)
		}
	}
	var n, odd int
	if err := c.QueryRow(t.Context(), "select count(*), count(*) filter (where queue <> 'default' or kind <> 'default' or group_key is not null or unique_key is not null or gate <> 0) from dibs.job").Scan(&n, &odd); err != nil || n != 9 || odd > 0 {
		t.Errorf("there are %d jobs, %d of them odd, %v", n, odd, err)
	}
}
