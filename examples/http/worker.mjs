// Enqueues a job and works its queue, with Node's fetch alone. Ends well on SIGTERM.
import { setTimeout as sleep } from "node:timers/promises";

const url = process.env.DIBS_URL ?? "http://127.0.0.1:7070";
const headers = { "Content-Type": "application/json" };
if (process.env.DIBS_TOKEN) headers.Authorization = `Bearer ${process.env.DIBS_TOKEN}`;
const lease = 3; // seconds
let stopping = false;

// ask answers with the status and the JSON; 503 stands also for a server that is away.
async function ask(path, body, seconds) {
  try {
    const signal = AbortSignal.timeout(seconds * 1000);
    const answer = await fetch(url + path, { method: "POST", headers, body: JSON.stringify(body), signal });
    if (answer.status !== 503) return { ...(await answer.json()), status: answer.status };
    return { status: 503, detail: answer.statusText };
  } catch (error) {
    return { status: 503, detail: error.message };
  }
}

// call asks again while the server or its database is away.
async function call(path, body) {
  for (;;) {
    const answer = await ask(path, body, 30);
    if (answer.status !== 503) return answer;
    console.error("dibs:", answer.detail);
    if (stopping) process.exit(1);
    await sleep(1000);
  }
}

// run runs one job, keeps its lease meanwhile, and says how it ended.
async function run({ id, token, payload }, handler) {
  const stop = new AbortController();
  let cancelled = false;
  let done = false;
  let end = setTimeout(() => stop.abort(), lease * 1000); // the lease ends, and another worker may get the job
  const extending = setInterval(async () => {
    const asked = performance.now();
    const answer = await ask("/v1/extend", { leases: [{ id, token }], lease }, lease);
    if (done) return;
    if (answer.status !== 200) console.error("dibs:", answer.detail);
    if (answer.status === 503) return;
    if (answer.status !== 200) {
      clearInterval(extending);
      return stop.abort();
    }
    clearTimeout(end);
    end = setTimeout(() => stop.abort(), asked + lease * 1000 - performance.now());
    cancelled ||= answer.leases[0].cancelled;
    if (cancelled || answer.leases[0].timed_out) stop.abort();
  }, (lease * 1000) / 3);
  let outcome;
  try {
    outcome = { id, token, ending: "completed", result: await handler(payload, stop.signal) };
  } catch (error) {
    outcome = { id, token, ending: cancelled ? "cancelled" : "retry", error: String(error) };
  }
  done = true;
  clearInterval(extending);
  clearTimeout(end);
  const answer = await call("/v1/finish", { outcomes: [outcome] });
  if (answer.status !== 200) console.error("dibs:", answer.detail); // another worker has the job
}

async function work(queue, handler) {
  while (!stopping) {
    const answer = await call("/v1/claim", { queue, worker: `node-${process.pid}`, lease, wait: 20 });
    if (answer.status !== 200) throw new Error(`${answer.title}: ${answer.detail}`);
    await Promise.all(answer.jobs.map((job) => run(job, handler)));
  }
}

process.on("SIGTERM", () => (stopping = true));
const job = await call("/v1/jobs", { queue: "node", payload: { to: "ann@example.com", seconds: 4 } });
console.log(job);
await work("node", async ({ to, seconds }, signal) => {
  await sleep(seconds * 1000, null, { signal }); // longer than the lease
  return { sent: to };
});
