package storetest_test

// A requirement is what a queue built by hand on an SQL table had to do, and what dibs has to do
// in its place. Each names what shows it: cases of the conformance suite, test functions of any
// package, or a workload of make bench.
type requirement struct {
	must    string
	shownBy []string
}

// requirements are those of five queues that people built by hand.
var requirements = map[string][]requirement{
	"the claim-token queue": {
		{"give up to N jobs in one call to a worker that says its name", []string{
			"claim/it takes at most n, and fewer when there are fewer",
			"claim/a claim marks the job with token, worker, attempt and lease",
		}},
		{"mint one token per claim call; the jobs it got are exactly those that carry it", []string{
			"claim/all jobs of one call share a token that no other call has",
			"race/every job is claimed exactly once and none is left",
		}},
		{"take jobs by priority, then by the time from which they may run", []string{
			"claim/jobs come by priority, then run_at, then id",
			"claim/the first and the last priority are the first and the last",
			"claim/jobs of the future are passed over until their time",
		}},
		{"have one meaning of 'due': available, or the lease has ended and attempts are left", []string{
			"sweep/a job whose lease ended waits again in its old place",
			"sweep/a job that kills its worker dies too",
			"claim/none due is not an error",
		}},
		{"set token, worker, attempt, start and lease in the claim, on the database's clock", []string{
			"claim/a claim marks the job with token, worker, attempt and lease",
			"claim/the lease is the queue's or the request's",
			"enqueue/a delay counts from the database's now",
		}},
		{"keep finished jobs for as long as the queue says", []string{
			"finish/completed ends the job and keeps the result",
			"finish/without retention a finished job is gone at once",
			"sweep/finished jobs go when their time is over",
		}},
		{"take results job by job, also for a batch claimed in one call", []string{
			"finish/one call takes outcomes of every ending, token and queue",
			"fence/the others of the batch take effect",
			"finish/the largest batch is taken whole by every verb",
		}},
		{"never give the same job to two workers", []string{
			"race/every job is claimed exactly once and none is left",
			"race/abandoned jobs are taken over once",
			"chaos/whatever happens, every promise is kept",
			"TestARealRunWithAKilledProcessKeepsEveryPromise",
			"TestTortureKeepsEveryPromiseAndCleansUp",
			"TestTortureSaysWhatWasBroken",
		}},
	},
	"the single-statement claim": {
		{"select and mark in one atomic step, with the smallest lock footprint", []string{
			"race/every job is claimed exactly once and none is left",
			"TestQueryPlans",
		}},
		{"have a total order: ties are broken by id", []string{"claim/jobs come by priority, then run_at, then id"}},
		{"leave finished jobs out of what a claim searches", []string{"TestSchema", "TestQueryPlans"}},
		{"look for abandoned jobs apart from new ones, and bounded in time", []string{
			"sweep/claiming alone finds abandoned jobs within lease and 2 s",
			"extend/a lease that ends soon after another is found as soon",
			"TestAbandonedJobStartsWithinTwoSecondsOfItsLeasesEnd",
		}},
		{"show every lock that a claim holds ('dibs locks'), and pin the footprint by a test", []string{
			"TestLocks",
			"TestLocksChangesNothing",
			"TestFootprint",
			"TestFootprintOfDamagedStatements",
		}},
	},
	"the ordered queue with restricted concurrency": {
		{"let each of many agents ask for its own N", []string{
			"claim/it takes at most n, and fewer when there are fewer",
			"twoagents/four agents with open transactions share out all jobs",
		}},
		{"take jobs in order, older first", []string{"claim/jobs come by priority, then run_at, then id"}},
		{"never run two of a group at the same time; the first in order runs first", []string{
			"groups/one of a group runs at a time, in order",
			"groups/the first by priority runs first",
			"race/groups run one at a time and in order, through crashes",
			"race/groups never run more than their limit, whichever it is just now",
		}},
		{"let a group have another limit", []string{
			"grouplimits/the queue's limit holds for each of its groups",
			"grouplimits/a group's own limit counts more, and can be taken away",
			"grouplimits/a limit that shrinks holds from the next claim on",
		}},
		{"free a crashed job's place with its lease", []string{
			"groups/a crash frees the place with the lease and keeps the order",
			"grouplimits/crashes within the limit free as many places",
		}},
		{"claim a batch over several groups at once, without falling back to one by one", []string{
			"groups/one claim takes the first of each group and all that are free",
			"groups/many blocked jobs do not hide the free ones behind them",
		}},
		{"never make an agent wait for another: with A's transaction open on 1-6, B gets 7-12 at once", []string{
			"twoagents/without groups A takes 1-6 and B gets 7-12 at once",
		}},
		{"the same with groups: 1, 5, 9 in group '1'; 3, 7, 11 in group '3'; the even ones free", []string{
			"twoagents/with groups B gets all that its groups allow at once",
			"twoagents/when A rolls back B gets A's jobs in their order",
			"groups/jobs in an open transaction block nobody",
		}},
	},
	"the service queue with expiring locks": {
		{"keep request id, state, worker and the times of request, start and completion, and make statistics of them", []string{
			"finish/completed ends the job and keeps the result",
			"stats/wait and run times are averages over the attempts",
			"stats/enqueued, claimed, succeeded and failed attempts are counted",
			"stats/the oldest age is that of the oldest due job",
		}},
		{"leave no job behind: A takes it and crashes, the lease ends, B picks it up", []string{
			"sweep/a job whose lease ended waits again in its old place",
			"sweep/another store finds the abandoned jobs of a closed one",
			"TestKilledWorkersJobsRunElsewhereWithinItsLeaseAndTwoSeconds",
		}},
		{"keep a lease alive while its worker lives", []string{
			"extend/a lease that is extended in time does not end",
			"extend/lost leases are told, the others extended",
			"TestHandlersOutliveTheirLeasesByOneExtendForAll",
		}},
		{"work with any number of processes and machines", []string{
			"claim/stores take turns without a collision",
			"enqueue/other stores see the jobs at once",
			"queues/pausing takes effect at once in another store",
			"TestProcessesShareAFileWithoutALockedErrorAndLoseNothing",
		}},
		{"give a job back after an external problem", []string{
			"finish/release gives the job back in its old place without counting the attempt",
			"finish/retry puts the job off and keeps the error",
			"retry/the backoff follows the documented formula",
			"retry/a retry's own delay is taken as it is",
		}},
		{"limit the attempts; then the job is dead, with its errors, and can be requeued", []string{
			"retry/the attempts run out",
			"finish/the error history keeps the last ten",
			"jobs/a finished job is put back with all attempts and its history",
		}},
	},
	"the table as queue at high volume, and its many askers": {
		{"do half a million enqueues and dequeues a minute, many times over", []string{"make bench W1", "make bench W2", "make bench W3", "make bench W10"}},
		{"find, skip what is locked, mark and return in one operation", []string{
			"txclaim/others pass over its jobs and do not wait",
			"race/every job is claimed exactly once and none is left",
		}},
		{"have few indexes", []string{"TestSchema", "TestQueryPlans"}},
		{"show lists and statistics without locking a row or slowing a claim", []string{
			"txclaim/reading does not wait for it",
			"list/pages cover what stays while other jobs come and go",
			"stats/after a random history the counts equal reality",
			"TestQueryPlans",
			"TestManyWhoLookCostOneStatementASecond",
			"TestPagesOfLargeJobsAreShort",
		}},
		{"take, process and commit in one transaction; rolling back gives the job back at once", []string{
			"txclaim/what is claimed and finished is so with the commit",
			"txclaim/a rollback gives the jobs back at once, as if never claimed",
			"txclaim/a lost connection gives the jobs back at once",
			"txclaim/a failure is counted by a savepoint, a retry and a commit",
		}},
		{"have states that tell success from error", []string{"jobs/a job can be got in every state", "stats/each state is counted"}},
		{"refuse a worker that somebody else has overtaken, and change nothing", []string{
			"fence/a wrong token is refused",
			"fence/an ended lease is refused, swept or not",
			"fence/the token of an earlier claim is refused",
			"fence/a finished job is refused, however it finished",
			"TestWorkerThatStoodStillIsRefused",
		}},
		{"give a restarted worker its own live claims", []string{
			"resume/a restarted worker gets its own jobs under one new token",
			"resume/the old tokens are lost",
			"TestResumeTakesBackWhatARestartedWorkerHeld",
		}},
		{"serialise all work of a queue", []string{
			"concurrency/a limit of 1 serialises the queue",
			"race/the queue never runs more than its limit, whichever it is just now",
		}},
		{"delay a job from inside its handler", []string{
			"finish/snooze puts the job off without counting the attempt",
			"TestOutcomeFollowsFromWhatTheHandlerReturns",
		}},
		{"not let a poison job loop", []string{"sweep/a job that kills its worker dies too", "sweep/attempts that do not count do not kill"}},
		{"adopt an existing table", []string{
			"TestFiveTables",
			"TestFiveTablesJudgesFindWhatIsWrong",
			"TestConformance",
			"TestRiversTableIsAdopted",
			"TestBadMappings",
			"TestTheGuideToAdoptingATableWorks",
			"TestTheTortureOfAnAdoptedTableKeepsAwayFromIt",
			"TestTheTortureOfAnAdoptedTableFindsFaults",
		}},
		{"enqueue, claim and finish inside the caller's own transaction", []string{
			"tx/what is enqueued is there if and only if the transaction commits",
			"tx/a finish and its effects happen together or not at all",
			"tx/effects happen exactly once although two run the job at once",
			"tx/of a stale and a fresh holder only the fresh one has effects",
			"txclaim/a pipeline moves from queue to queue",
			"TestTransactionChangesWorkAndDataTogether",
		}},
		{"have heap, FIFO, LIFO and pending queues", []string{
			"race/every job is claimed exactly once and none is left",
			"claim/jobs come by priority, then run_at, then id",
			"claim/lifo takes the newest of the best priority",
			"claim/jobs of the future are passed over until their time",
		}},
	},
}
