// Enqueues a job and works its queue, with Node's fetch alone. Ends well on SIGTERM.
import { setTimeout as sleep } from "node:timers/promises";

const url = process.env.DIBS_URL ?? "http://127.0.0.1:7070";
const headers = { "Content-Type": "application/json" };
if (process.env.DIBS_TOKEN) headers.Authorization = `Bearer ${process.env.DIBS_TOKEN}`;
const lease = 3; // seconds
let stopping = false;

// call answers with the status and the JSON. It tries again while the server or its database is away.
async function call(path, body) {
  for (;;) {
    try {
      const answer = await fetch(url + path, { method: "POST", headers, body: JSON.stringify(body) });
      if (answer.status !== 503) return { status: answer.status, ...(await answer.json()) };
    } catch (error) {
      console.error("dibs:", error.message);
    }
    if (stopping) process.exit(1);
    await sleep(1000);
  }
}

// run runs one job, keeps its lease meanwhile, and says how it ended.
async function run({ id, token, payload }, handler) {
  const extending = setInterval(async () => {
    const answer = await call("/v1/extend", { leases: [{ id, token }], lease });
    if (answer.status !== 200) {
      clearInterval(extending);
      console.error("dibs:", answer.detail);
    }
  }, (lease * 1000) / 3);
  let outcome;
  try {
    outcome = { id, token, ending: "completed", result: await handler(payload) };
  } catch (error) {
    outcome = { id, token, ending: "retry", error: String(error) };
  }
  clearInterval(extending);
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
await work("node", async ({ to, seconds }) => {
  await sleep(seconds * 1000); // longer than the lease
  return { sent: to };
});
