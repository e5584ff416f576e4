package dibs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/dibs-queue/dibs"
)

// workAll completes jobs of the queue "default" one after the other, except those of a kind that fails.
func workAll(ctx context.Context, store dibs.Store, fails string) {
	for {
		jobs, err := store.Claim(ctx, dibs.ClaimRequest{N: 1, Worker: "example"})
		if err != nil {
			log.Fatal(err)
		}
		if len(jobs) == 0 {
			return
		}
		end, what := jobs[0].Lease().Complete(nil), "completed"
		if jobs[0].Kind == fails {
			end, what = jobs[0].Lease().Die("out of paper"), "dead"
		}
		fmt.Println(jobs[0].Kind, string(jobs[0].Payload), what)
		if err := store.Finish(ctx, []dibs.Outcome{end}); err != nil {
			log.Fatal(err)
		}
	}
}

// Each job of a chain starts once the one before it is completed.
func ExampleAfter() {
	ctx := context.Background()
	store, end := temporary(ctx)
	defer end()
	load := dibs.NewKind[string]("load", dibs.KindOptions{})
	convert, publish := dibs.NewKind[string]("convert", dibs.KindOptions{}), dibs.NewKind[string]("publish", dibs.KindOptions{})
	_, err := store.Enqueue(ctx, []dibs.NewJob{
		load.New("may.csv", dibs.Ref("load")),
		convert.New("may.csv", dibs.Ref("convert"), dibs.After("load")),
		publish.New("may.csv", dibs.After("convert")),
	})
	if err != nil {
		log.Fatal(err)
	}
	workAll(ctx, store, "")
	// Output:
	// load "may.csv" completed
	// convert "may.csv" completed
	// publish "may.csv" completed
}

// Many jobs may share a ref: what comes after the ref comes after them all.
func ExampleRef() {
	ctx := context.Background()
	store, end := temporary(ctx)
	defer end()
	split, render, bind := dibs.NewKind[string]("split", dibs.KindOptions{}), dibs.NewKind[int]("render", dibs.KindOptions{}), dibs.NewKind[string]("bind", dibs.KindOptions{})
	jobs := []dibs.NewJob{split.New("book", dibs.Ref("split"))}
	for n := range 3 {
		jobs = append(jobs, render.New(n+1, dibs.Ref("page"), dibs.After("split")))
	}
	jobs = append(jobs, bind.New("book", dibs.After("page")))
	if _, err := store.Enqueue(ctx, jobs); err != nil {
		log.Fatal(err)
	}
	workAll(ctx, store, "")
	// Output:
	// split "book" completed
	// render 1 completed
	// render 2 completed
	// render 3 completed
	// bind "book" completed
}

// A job that comes after many brings together what they have left.
func ExampleRawJob_Before() {
	ctx, stop := context.WithCancel(context.Background())
	store, end := temporary(ctx)
	defer end()
	count, sum := dibs.NewKind[string]("count", dibs.KindOptions{}), dibs.NewKind[string]("sum", dibs.KindOptions{})
	worker := &dibs.Worker{Store: store}
	count.Handle(worker, func(_ context.Context, job *dibs.Job[string]) error {
		return job.SetResult(len(job.Payload))
	})
	sum.Handle(worker, func(ctx context.Context, job *dibs.Job[string]) error {
		total := 0
		for word, err := range job.Before(ctx) {
			if err != nil {
				return err
			}
			var letters int
			if err := json.Unmarshal(word.Result, &letters); err != nil {
				return err
			}
			total += letters
		}
		fmt.Println(job.Payload, "has", total, "letters")
		stop()
		return nil
	})
	_, err := store.Enqueue(ctx, []dibs.NewJob{
		count.New("once", dibs.Ref("word")),
		count.New("upon", dibs.Ref("word")),
		count.New("a time", dibs.Ref("word")),
		sum.New("the book", dibs.After("word")),
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// the book has 14 letters
}

// A callback comes after the end of others, whatever became of them.
func ExampleAfterEnd() {
	ctx := context.Background()
	store, end := temporary(ctx)
	defer end()
	printing, tell := dibs.NewKind[string]("print", dibs.KindOptions{}), dibs.NewKind[string]("tell", dibs.KindOptions{})
	done, err := store.Enqueue(ctx, []dibs.NewJob{
		printing.New("a.pdf", dibs.Ref("print")),
		printing.New("b.pdf", dibs.Ref("print")),
		tell.New("ann", dibs.AfterEnd("print")),
		{Kind: "archive", After: []dibs.Dep{{Ref: "print"}}},
		{Kind: "clean", After: []dibs.Dep{{Ref: "print", On: dibs.NeedEnded}}},
	})
	if err != nil {
		log.Fatal(err)
	}
	workAll(ctx, store, "print")
	archive, err := store.Get(ctx, done[3].ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("archive", archive.State, "because of job", archive.Cause)
	// Output:
	// print "a.pdf" dead
	// print "b.pdf" dead
	// tell "ann" completed
	// clean null completed
	// archive cancelled because of job 1
}

// The flight is paid for, and then there is no room in the hotel: the money comes back. If there is no flight, the hotel is
// not tried, and nothing has to come back.
func ExampleAfterFailure() {
	ctx := context.Background()
	store, end := temporary(ctx)
	defer end()
	flight, hotel := dibs.NewKind[string]("flight", dibs.KindOptions{}), dibs.NewKind[string]("hotel", dibs.KindOptions{})
	refund := dibs.NewKind[string]("refund", dibs.KindOptions{})
	for _, fails := range []string{"hotel", "flight", ""} {
		_, err := store.Enqueue(ctx, []dibs.NewJob{
			flight.New("ann", dibs.Ref("flight")),
			hotel.New("ann", dibs.Ref("hotel"), dibs.After("flight")),
			refund.New("ann", dibs.After("flight"), dibs.AfterFailure("hotel")),
		})
		if err != nil {
			log.Fatal(err)
		}
		workAll(ctx, store, fails)
	}
	// Output:
	// flight "ann" completed
	// hotel "ann" dead
	// refund "ann" completed
	// flight "ann" dead
	// flight "ann" completed
	// hotel "ann" completed
}
