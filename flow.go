package dibs

// Need says what a job asks of the end of another that it comes after.
type Need string

const (
	// NeedCompleted, the default: the other is completed.
	// If it ends as dead or cancelled, the job is cancelled, and its Cause is the other's id.
	NeedCompleted Need = "completed"
	// NeedEnded: the other has ended, in whatever way: for what must happen in any case.
	NeedEnded Need = "ended"
	// NeedFailed: the other is dead or cancelled: for what makes a failure good. If it is
	// completed, the job is cancelled.
	NeedFailed Need = "failed"
)

// Dep names jobs that a job comes after.
// It is one, by its ID, or those of the same call that stand earlier in it and have this Ref.
// If none has the Ref, there is nothing to wait for; a Ref of digits is refused then, as it is meant as an ID.
type Dep struct {
	ID  int64
	Ref string
	On  Need // default NeedCompleted
}

// Ref names the job within its call of Enqueue, for others that come After it. Many may share one.
func Ref(name string) func(*NewJob) { return func(j *NewJob) { j.Ref = name } }

// After has the job start once all these jobs are completed.
// A Ref names those that stand earlier in the same call; an id, which is an int64, names one that exists:
// dibs.After("page"), dibs.After(enqueued.ID), dibs.After(int64(17)).
// A Ref that no earlier job has is no error, unless it is a number: there is nothing to wait for.
func After[T string | int64](jobs ...T) func(*NewJob) { return after(NeedCompleted, jobs) }

// AfterEnd has the job start once all these jobs have ended, in whatever way.
func AfterEnd[T string | int64](jobs ...T) func(*NewJob) { return after(NeedEnded, jobs) }

// AfterFailure has the job start once all these jobs are dead or cancelled.
func AfterFailure[T string | int64](jobs ...T) func(*NewJob) { return after(NeedFailed, jobs) }

func after[T string | int64](need Need, jobs []T) func(*NewJob) {
	return func(j *NewJob) {
		for _, other := range jobs {
			d := Dep{On: need}
			switch other := any(other).(type) {
			case string:
				d.Ref = other
			case int64:
				d.ID = other
			}
			j.After = append(j.After, d)
		}
	}
}
