// A queue for Node.js as a contender of the bench. ../node.go starts it and writes requests to
// its stdin; it ends with its stdin. Nothing else may write to its stdout.
import { createInterface } from 'node:readline'

const kind = 'mail'
const queues = { 'graphile-worker': graphileWorker, 'pg-boss': pgBoss }

// graphileWorker has the settings of the benchmark in its documentation (worker.graphile.org,
// "Performance"): 24 jobs at once, 25 connections, 500 jobs fetched at a time, completed ones
// collected. LISTEN wakes it, so that its poll, 2 s by default, matters little. A job counts as
// finished when it joins the batch of completed ones, just before that is written. The default
// logger would print a line for each job.
async function graphileWorker(url) {
  const { Logger, makeWorkerUtils, run } = await import('graphile-worker')
  const logger = new Logger(() => (level, message) => {
    if (level === 'error' || level === 'warning') console.error(message)
  })
  const worker = {
    connectionString: url, maxPoolSize: 25, logger,
    concurrentJobs: 24, localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0,
  }
  const start = (handle) => run({ preset: { worker }, noHandleSignals: true, taskList: { [kind]: handle } })
  await (await start(() => {})).stop() // creates the tables, and loads what the measured start needs
  const utils = await makeWorkerUtils({ preset: { worker } })
  return {
    enqueue: (jobs) => jobs.length === 1
      ? utils.addJob(kind, jobs[0].mail, { priority: jobs[0].priority })
      : utils.addJobs(jobs.map((job) => ({ identifier: kind, payload: job.mail, priority: job.priority }))),
    async work() {
      const runner = await start((mail) => started(mail))
      runner.events.on('job:complete', ({ error }) => error ? fail(error) : finished(1))
      runner.promise.catch(fail)
      return () => runner.stop()
    },
  }
}

// pgBoss has the fast ones of its documented options (pgboss.io): LISTEN wakes it, it fetches batches, and
// after a full one the next at once. Two workers with batches of 250 were as fast as one with 500 or
// 1,000, and five with 100. A job counts as finished when the handler of its batch returns, just
// before the batch's completion is written. Every second, the least that it allows, it looks for jobs that
// no longer wait for others.
async function pgBoss(url, pool) {
  const { PgBoss } = await import('pg-boss')
  const boss = new PgBoss({ connectionString: url, max: pool, useListenNotify: true, flowIntervalSeconds: 1 })
  boss.on('error', fail)
  await boss.start()
  await boss.createQueue(kind, { notify: true })
  const options = { batchSize: 250, localConcurrency: 2, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 }
  return {
    enqueue: (jobs) => jobs.some((job) => job.ref || job.after)
      ? boss.flow(flowOf(jobs))
      : jobs.length === 1
      ? boss.send(kind, jobs[0].mail, { priority: 2 - jobs[0].priority })
      : boss.insert(kind, jobs.map((job) => ({ data: job.mail, priority: 2 - job.priority }))),
    async work() {
      await boss.work(kind, options, async (jobs) => {
        for (const job of jobs) started(job.data)
        finished(jobs.length)
      })
      return () => boss.offWork(kind)
    },
  }
}

// flowOf gives each job a name of its own, and the names of those that it comes after.
function flowOf(jobs) {
  const named = {}
  return jobs.map((job, i) => {
    const one = { ref: String(i), name: kind, data: job.mail, dependsOn: named[job.after] ?? [] }
    if (job.ref) (named[job.ref] ??= []).push(one.ref)
    return one
  })
}

let queue, stop

async function answer({ open, jobs, work }) {
  if (open) {
    queue = await queues[open.queue](open.url, open.pool)
  } else if (jobs) {
    if (jobs[0].mail.sent) jobs[0].mail.sent = now() // leaves out the way through the pipe
    await queue.enqueue(jobs.flatMap((job) => Array(job.count).fill(job)))
  } else if (work) {
    stop = await queue.work()
  } else {
    await stop()
  }
}

const now = () => Math.round((performance.timeOrigin + performance.now()) * 1e6) // Unix time in nanoseconds
const write = (reply) => process.stdout.write(JSON.stringify(reply) + '\n')

// What has happened since the last report, which is made every 5 ms at most.
let starts = [], count = 0, report

function started(mail) {
  if (mail.sent) starts.push({ Sent: mail.sent, At: now() })
}

function finished(jobs) {
  count += jobs
  report ??= setTimeout(() => {
    write({ starts, finished: count })
    starts = [], count = 0, report = undefined
  }, 5)
}

function fail(error) {
  console.error(error)
  process.exit(1)
}

createInterface({ input: process.stdin })
  .on('line', (line) => {
    const request = JSON.parse(line)
    answer(request).then(
      () => write({ id: request.id }),
      (error) => write({ id: request.id, error: String(error) }))
  })
  .on('close', () => process.exit(0))
