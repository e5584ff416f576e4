package wire

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// The command's JSON must have every field of the library's types.
func TestJSONHasEveryFieldOfTheLibrary(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ library, command any }{
		{dibs.Queue{}, Queue{}},
		{dibs.Backoff{}, Backoff{}},
		{dibs.Rate{}, Rate{}},
		{dibs.Group{}, Group{}},
		{admin.QueueStats{}, Stats{}},
	} {
		want := reflect.TypeOf(c.library)
		got := slices.DeleteFunc(reflect.VisibleFields(reflect.TypeOf(c.command)), func(f reflect.StructField) bool { return f.Anonymous })
		if want.NumField() != len(got) {
			t.Errorf("%T has %d fields, %v has %d", c.command, len(got), want, want.NumField())
			continue
		}
		for i, g := range got {
			w := want.Field(i)
			if w.Name != g.Name || w.Tag != g.Tag {
				t.Errorf("field %d of %T is %s %s, of %v %s %s", i, c.command, g.Name, g.Tag, want, w.Name, w.Tag)
			}
			if w.Type == reflect.TypeFor[time.Duration]() && g.Type != reflect.TypeFor[Seconds]() {
				t.Errorf("%T.%s is not in seconds", c.command, g.Name)
			}
		}
	}
}

// The page and 'dibs queue' show and change what is in QueueSettings, so the table needs an entry for each field.
func TestEverySettingIsInTheTable(t *testing.T) {
	t.Parallel()
	var q dibs.Queue
	fill(reflect.ValueOf(&q).Elem())
	for field := range reflect.TypeFor[dibs.Queue]().Fields() {
		changed := q
		if field.Name == "Name" || field.Name == "Paused" {
			continue
		}
		reflect.ValueOf(&changed).Elem().FieldByIndex(field.Index).SetZero()
		if !slices.ContainsFunc(QueueSettings, func(s Setting) bool { return s.Text(changed) != s.Text(q) }) {
			t.Errorf("QueueSettings has no entry for the field %s", field.Name)
		}
	}
}

// The conversions must copy every field.
func TestJSONConversionsCopyEveryField(t *testing.T) {
	t.Parallel()
	var q dibs.Queue
	fill(reflect.ValueOf(&q).Elem())
	noneZero(t, reflect.ValueOf(QueueOf(q)))
	if again := QueueOf(q).Queue(); again != q {
		t.Errorf("%+v becomes %+v", q, again)
	}
	var s admin.QueueStats
	fill(reflect.ValueOf(&s).Elem())
	noneZero(t, reflect.ValueOf(StatsOf(s)))
	var g dibs.Group
	fill(reflect.ValueOf(&g).Elem())
	noneZero(t, reflect.ValueOf(GroupsOf([]dibs.Group{g})[0]))
}

func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(1, 0)))
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString("x")
	case reflect.Float64:
		v.SetFloat(1)
	default:
		v.SetInt(1)
	}
}

func noneZero(t *testing.T, v reflect.Value) {
	t.Helper()
	for i := range v.NumField() {
		if v.Field(i).Kind() == reflect.Struct && v.Field(i).Type() != reflect.TypeFor[time.Time]() {
			noneZero(t, v.Field(i))
		} else if v.Field(i).IsZero() {
			t.Errorf("%v.%s is not copied", v.Type(), v.Type().Field(i).Name)
		}
	}
}
