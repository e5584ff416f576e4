package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/jobs"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/queues"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/top"
	"github.com/dibs-queue/dibs/internal/failures"
	"github.com/dibs-queue/dibs/internal/holdups"
	"github.com/dibs-queue/dibs/internal/wire"
)

var (
	jsonEntry = regexp.MustCompile(`(?m)^  ([a-z]+(?: [a-z]+)?)  +`)
	jsonWord  = regexp.MustCompile(`[a-z][a-z_0-9]*`)
	reason    = regexp.MustCompile(`Reason: "([a-z_]+)"`)
)

// 'dibs help json' names every field that is written or read, and no other that has an underscore.
func TestHelpNamesEveryFieldOfJSON(t *testing.T) {
	t.Parallel()
	entries := map[string]string{}
	places := jsonEntry.FindAllStringSubmatchIndex(jsonHelp, -1)
	for i, p := range places {
		end := len(jsonHelp)
		if i+1 < len(places) {
			end = places[i+1][0]
		}
		entries[jsonHelp[p[2]:p[3]]] = jsonHelp[p[1]:end]
	}
	for entry, types := range map[string][]any{
		"jobs":      {jobs.HeldJobJSON{}},
		"a page":    {jobs.PageJSON{}},
		"a look":    {top.JSON{}},
		"new jobs":  {wire.NewJob{}},
		"outcomes":  {wire.Outcome{}},
		"enqueued":  {jobs.Enqueued{}},
		"queues":    {wire.Queue{}, wire.Group{}},
		"counts":    {jobs.HeldStatsJSON{}},
		"failures":  {failures.Group{}},
		"workers":   {queues.WorkerLine{}},
		"why":       {holdups.Hold{}},
		"a flow":    {admin.Flow{}},
		"schedules": {wire.Schedule{}},
	} {
		if entries[entry] == "" {
			t.Errorf("'dibs help json' has no entry %q", entry)
		}
		words := jsonWord.FindAllString(entries[entry], -1)
		var fields []string
		for _, v := range types {
			fields = append(fields, fieldsOf(reflect.TypeOf(v), entry == "a page" || entry == "a look")...)
		}
		if entry == "why" {
			fields = append(fields, reasons(t)...)
		}
		for _, field := range fields {
			if !slices.Contains(words, field) {
				t.Errorf("the entry %q of 'dibs help json' lacks %s", entry, field)
			}
		}
		for _, word := range words {
			if strings.Contains(word, "_") && !slices.Contains(fields, word) {
				t.Errorf("the entry %q of 'dibs help json' names %s, which is not written", entry, word)
			}
		}
	}
}

// fieldsOf lists the names that a type has in JSON, with those of its parts. The fields of jobs
// and of the reasons have entries of their own; flat leaves out all parts.
func fieldsOf(v reflect.Type, flat bool) (names []string) {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Slice {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct || v == reflect.TypeFor[time.Time]() || v.Implements(reflect.TypeFor[json.Marshaler]()) {
		return nil
	}
	for i := range v.NumField() {
		f := v.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous:
			names = append(names, fieldsOf(f.Type, flat)...)
		case name != "" && name != "-":
			names = append(names, name)
			if !flat && f.Type != reflect.TypeFor[[]holdups.Hold]() {
				names = append(names, fieldsOf(f.Type, flat)...)
			}
		}
	}
	return names
}

// reasons lists the reasons that the source names.
func reasons(t *testing.T) (all []string) {
	files, err := filepath.Glob("../../internal/holdups/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range reason.FindAllSubmatch(source, -1) {
			all = append(all, string(m[1]))
		}
	}
	if !slices.Contains(all, "rate") || !slices.Contains(all, "no_worker_for_kind") {
		t.Errorf("the source names only the reasons %q", all)
	}
	return all
}
