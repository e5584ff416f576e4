package dibs_test

import (
	"context"
	"fmt"
	"log"
	"slices"
	"sync"
	"time"

	"github.com/dibs-queue/dibs"
)

// A crawler does not know beforehand which pages there are: each page adds those that it links to, in the write that
// completes it. What comes after the first page comes after all of them.
func ExampleRawJob_Add() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	store, end := temporary(ctx)
	defer end()
	links := map[string][]string{"/": {"/news", "/shop"}, "/news": {"/", "/shop"}, "/shop": {"/shop/tea"}}
	var mu sync.Mutex
	var seen []string

	worker := &dibs.Worker{Store: store}
	crawl, sitemap := dibs.NewKind[string]("crawl", dibs.KindOptions{}), dibs.NewKind[string]("sitemap", dibs.KindOptions{})
	visit := func(path string, options ...func(*dibs.NewJob)) dibs.NewJob {
		j := crawl.New(path, append(options, dibs.UniqueKey(path))...)
		j.UniqueFor = 24 * time.Hour // no page twice a day, also if its job has ended
		return j
	}
	crawl.Handle(worker, func(_ context.Context, job *dibs.Job[string]) error {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, job.Payload)
		for _, path := range links[job.Payload] {
			job.Add(visit(path))
		}
		return nil
	})
	sitemap.Handle(worker, func(_ context.Context, job *dibs.Job[string]) error {
		slices.Sort(seen)
		fmt.Println(job.Payload, seen)
		stop()
		return nil
	})
	_, err := store.Enqueue(ctx, []dibs.NewJob{visit("/", dibs.Ref("site")), sitemap.New("the site has", dibs.After("site"))})
	if err != nil {
		log.Fatal(err)
	}
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// the site has [/ /news /shop /shop/tea]
}
