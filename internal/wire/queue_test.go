package wire

import (
	"reflect"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
)

// The command's JSON must have every field of the library's types.
func TestJSONHasEveryFieldOfTheLibrary(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ library, command any }{
		{dibs.Queue{}, Queue{}},
		{dibs.Backoff{}, Backoff{}},
		{dibs.Rate{}, Rate{}},
		{dibs.Group{}, Group{}},
		{dibs.QueueStats{}, Stats{}},
	} {
		want, got := reflect.TypeOf(c.library), reflect.TypeOf(c.command)
		if want.NumField() != got.NumField() {
			t.Errorf("%v has %d fields, %v has %d", got, got.NumField(), want, want.NumField())
			continue
		}
		for i := range want.NumField() {
			w, g := want.Field(i), got.Field(i)
			if w.Name != g.Name || w.Tag != g.Tag {
				t.Errorf("field %d of %v is %s %s, of %v %s %s", i, got, g.Name, g.Tag, want, w.Name, w.Tag)
			}
			if w.Type == reflect.TypeFor[time.Duration]() && g.Type != reflect.TypeFor[Seconds]() {
				t.Errorf("%v.%s is not in seconds", got, g.Name)
			}
		}
	}
}

// The conversions must copy every field.
func TestJSONConversionsCopyEveryField(t *testing.T) {
	t.Parallel()
	var q dibs.Queue
	fill(reflect.ValueOf(&q).Elem())
	noneZero(t, reflect.ValueOf(QueueOf(q)))
	var s dibs.QueueStats
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
