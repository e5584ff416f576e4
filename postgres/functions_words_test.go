package postgres_test

import (
	"cmp"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/wire"
)

// writtenJobs are jobs as JSON, by lines: right ones, those that break a rule, and what is no job.
const writtenJobs = `
{"run_at":"2030-01-01T23:59:60Z"}
{"run_at":"2030-01-01T00:00:60Z"}
{"run_at":"2030-01-01T00:00:61Z"}
{"run_at":"2030-01-01T00:60:00Z"}
{"run_at":"2030-01-01T23:59:60.5Z"}
{"run_at":"2030-01-01T24:00:00Z"}
{"run_at":"2030-01-01T00:00:00+16:00"}
{"run_at":"2030-01-01T00:00:00+15:59"}
{"run_at":"2030-01-01T00:00:00-15:59"}
{"run_at":"2030-01-01T00:00:00-16:00"}
{"run_at":"2030-01-01T00:00:00+23:59"}
{"run_at":"2030-01-01T00:00:00+24:00"}
{"run_at":"2030-01-01T00:00:00+15:60"}
{"run_at":"2030-01-01T00:00:00+99:99"}
{"run_at":"2030-01-01T00:00:00,5Z"}
{"run_at":"2030-01-01T00:00:00.Z"}
{"run_at":"2030-01-01T00:00:00.1234567Z"}
{"run_at":"2030-01-01T00:00:00.9999999Z"}
{"run_at":"2030-01-01T00:00:00.12345678901Z"}
{"run_at":"2030-01-01T00:00:00.123456789012345678901234567890Z"}
{"run_at":"2030-01-01t00:00:00z"}
{"run_at":"2030-01-01 00:00:00Z"}
{"run_at":"2030-01-01T0:00:00Z"}
{"run_at":"2030-02-30T00:00:00Z"}
{"run_at":"2030-13-01T00:00:00Z"}
{"run_at":"2030-1-1T00:00:00Z"}
{"run_at":"10000-01-01T00:00:00Z"}
{"run_at":"12345-01-01T00:00:00Z"}
{"run_at":"0000-01-01T00:00:00Z"}
{"run_at":"-001-01-01T00:00:00Z"}
{"run_at":"-0001-01-01T00:00:00Z"}
{"run_at":"0001-01-01T00:00:00Z"}
{"run_at":"0001-01-01T00:00:00+01:00"}
{"run_at":"9999-12-31T23:59:59-01:00"}
{"run_at":"030-01-01T00:00:00Z"}
{"run_at":""}
{"run_at":5}
{"run_at":true}
{"run_at":{}}
{"run_at":null}
{"run_at":"2030-01-01T00:00:00\u005a"}
{"run_at":"2030-01-01T00:00:00-00:00"}
{"run_at":"2030-01-01T00:00:00+0000"}
{"run_at":"2030-01-01T00:00:00"}
{"delay":"500ns"}
{"delay":0.0000005}
{"delay":0.0000001}
{"delay":"1500ns"}
{"delay":0.0000015}
{"delay":1e-7}
{"delay":1e-70}
{"delay":-1e-7}
{"delay":"-1ns"}
{"delay":"-500ns"}
{"delay":-0.0000005}
{"delay":-0.0000015}
{"delay":"-1500ns"}
{"delay":"1.5us"}
{"delay":"999ns","run_at":"2030-01-01T00:00:00Z"}
{"delay":1e-10,"run_at":"2030-01-01T00:00:00Z"}
{"delay":1e-9,"run_at":"2030-01-01T00:00:00Z"}
{"unique_key":"k","unique_for":"1ns"}
{"unique_key":"k","unique_for":"999999ns"}
{"unique_key":"k","unique_for":1e-8}
{"unique_for":1e-8}
{"unique_for":1e-9}
{"unique_for":"1ns"}
{"delay_limit":"1ns"}
{"unique_key":"k","delay_limit":"1ns","if_held":"replace","delay":5}
{"unique_key":"k","delay_limit":"1ns","if_held":"push","delay":5}
{"unique_key":"k","delay_limit":"5s","if_held":"push","delay":"1ns"}
{"unique_key":"k","delay_limit":"1ns"}
{"delay":"-1h"}
{"delay":"0"}
{"delay":"+5s"}
{"delay":"1d"}
{"delay":"-1d"}
{"delay":"+1d"}
{"delay":"1d-1h"}
{"delay":"1.5d"}
{"delay":"1e3"}
{"delay":""}
{"delay":"s"}
{"delay":"."}
{"delay":".5s"}
{"delay":"5.s"}
{"delay":"soon"}
{"delay":true}
{"delay":[1]}
{"delay":{"a":1}}
{"delay":null}
{"delay":1e300}
{"delay":1e10}
{"delay":9e9}
{"delay":"99999999h"}
{"delay":"9999999d"}
{"delay":315360001}
{"delay":1.5e3}
{"delay":" 5s"}
{"delay":"5 s"}
{"delay":"1\u00b5s"}
{"delay":"5µs"}
{"delay":"1d0"}
{"delay":"-0"}
{"delay":"+0"}
{"delay":"00"}
{"delay":"10"}
{"delay":"1h1h"}
{"delay":"1s1h"}
{"delay":"2540400h10m10.000000000s"}
{"delay":"0.100000000000000000000h"}
{"delay":"0.3333333333333333333h"}
{"delay":"0.83ns"}
{"foo\u0000":1}
{"\u0000":1}
{"\u0061":1}
{"pay\u006coad":1}
{"pay\u006coad":1,"kind":"\u0000"}
{"pay\u006coad":"\u0000"}
{"pay\u006coad":"\u0000","payload":1}
{"b\u0061d":"\u0000"}
{"b\nd":"\u0000"}
{"b\"d":"\u0000"}
{"b\\d":"\u0000"}
{"metadata":"x"}
{"metadata":"x\"y"}
{"metadata":""}
{"metadata":[1]}
{"metadata":5}
{"metadata":null}
{"metadata":true}
{"metadata":"ä\n"}
{"metadata":"\u00e4"}
{"metadata":["ä","b"]}
{"kind":5}
{"kind":true}
{"kind":{"a":"b"}}
{"kind":["b"]}
{"kind":"\u0000"}
{"kind":"a\tb"}
{"kind":"a\u0001b"}
{"kind":null}
{"priority":"5"}
{"priority":1.5}
{"priority":1e2}
{"priority":-1}
{"priority":99999999999999999999}
{"priority":9999999999}
{"priority":999999999999999999}
{"priority":1000000000000000000}
{"priority":null}
{"priority":true}
{"priority":{}}
{"priority":-0}
{"max_attempts":"5"}
{"max_attempts":1.0}
{"max_attempts":-1}
{"foo":1}
{"kind":"a","kind":"b"}
{"Kind":"a"}
{"payload":1,"payload":2}
[]
5
"x"
null
true
{"unique_until":5}
{"unique_key":"k","unique_until":"x"}
{"if_held":5}
{"unique_window":5}
{"kind":5,"queue":6}
{"kind":"a\\u0000b"}
{"kind":"\u0000\u0000\\\u0000"}
{"delay":"1\u00b5s"}
{"delay":0.30000000000000004}
{"delay":315359999.123456}
{"kind":"\u00e4\ud83d\ude00"}
{"queue":"q","kind":null}
{"delay":"1d+1h"}
{"delay":1e-999}
{"delay":"106751d"}
{"delay":"106752d"}
{"ref":5}
{"ref":"\u0000"}
{"ref":"a\tb"}
{"ref":null}
{"ref":""}
{"after":"page"}
{"after":{"ref":"page"}}
{"after":5}
{"after":true}
{"after":null}
{"after":[]}
{"after":["page",true]}
{"after":[null]}
{"after":[["page", {"a": "b"}, "and so on, for more than 40 characters"]]}
{"after":[1,0]}
{"after":[-0]}
{"after":[1.5]}
{"after":[1e2]}
{"after":[99999999999999999999]}
{"after":[""]}
{"after":[{}]}
{"after":["a",{"id":-4}]}
{"after":["a",{"id":"4"}]}
{"after":["a",{"id":null,"ref":null,"on":null}]}
{"after":["a",{"ref":"a","on":5}]}
{"after":["a",{"ref":"a","on":"done"}]}
{"after":["a","b",{"ref":"a","onn":"ended"}]}
{"after":[{"ref":"a","ref":"b"}]}
{"after":[{"r\u0065f":"a","\u0000":1}]}
{"after":[{"ref":"a","id":7}]}
{"after":["\ud800"]}
{"after":["a",{"ref":"\ud800x"}]}
{"after":["a\u0000"]}
{"after":["a\tb"]}
{"after":["\u00e4\ud83d\ude00"]}
{"after":[7]}
{"after":["a",{"id":7,"on":"failed"}]}
{"ref":"a","after":["a"]}
`

// takeRows deletes the jobs of a schema, and returns what they held. A start in the future is written as a time if
// absolute is true; otherwise as the time since the enqueueing.
func takeRows(t *testing.T, pool *pgxpool.Pool, schema string, absolute bool) (rows string) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), strings.ReplaceAll(`
		with gone as (delete from S.job returning *), windows as (delete from S.unique_window returning until)
		select coalesce(string_agg(concat_ws(' ', queue, kind, payload, metadata, priority, max_attempts, group_key, unique_key, unique_until,
			case when $1 and run_at > created_at then run_at::text else (run_at - created_at)::text end,
			(select round(extract(epoch from w.until - created_at)::numeric, 6) from windows w)), E'\n' order by id), '')
		from gone`, "S.", schema+"."), absolute).Scan(&rows); err != nil {
		t.Fatal(err)
	}
	return rows
}

// enqueue_many reads jobs as Go's readers of JSON do: it refuses the same, in the same words, and
// writes the same rows, also where a NUL in the batch has it read job by job.
func TestTheFunctionsReadJobsAsGoDoes(t *testing.T) {
	t.Parallel()
	bySelf, _, pool := twins(t)
	refused := 0
	for text := range strings.SplitSeq(strings.TrimSpace(writtenJobs), "\n") {
		for _, rest := range []string{"", `, {"payload":"\u0000"}`} {
			job, err := wire.ReadJob([]byte(text), dibs.NewJob{})
			var want, got *dibs.InvalidError
			if errors.As(err, &want) {
				want = &dibs.InvalidError{Field: strings.TrimSuffix("jobs[0]."+want.Field, ".job"), Reason: want.Reason}
			} else {
				job.Kind = cmp.Or(job.Kind, job.Queue, "default") // the SQL functions have a default kind
				jobs := []dibs.NewJob{job}
				if rest != "" {
					jobs = append(jobs, dibs.NewJob{Kind: "default", Payload: []byte(`"\u0000"`)})
				}
				_, err = bySelf.Enqueue(t.Context(), jobs)
				errors.As(err, &want)
			}
			_, byFunctions := pool.Exec(t.Context(), "select by_functions.enqueue_many($1::text::json)", "["+text+rest+"]")
			errors.As(asInvalid("", byFunctions), &got)
			switch {
			case (err == nil) != (byFunctions == nil) || err != nil && (want == nil || got == nil):
				t.Errorf("%s%s: the functions say %v, Go says %v", text, rest, byFunctions, err)
			case err != nil && *got != *want:
				t.Errorf("%s%s: the functions say\n%q, Go says\n%q", text, rest, got, want)
			case err != nil:
				refused++
			}
			absolute := strings.Contains(text, "run_at")
			if want, got := takeRows(t, pool, "by_self", absolute), takeRows(t, pool, "by_functions", absolute); got != want {
				t.Errorf("%s%s: the functions write\n%s, Go writes\n%s", text, rest, got, want)
			}
		}
	}
	t.Logf("%d batches refused", refused)
}
