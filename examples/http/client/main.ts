// The life of a job by a client that is generated from the server's description: see generate.sh.
import { claimJobs, enqueueJob, extendLeases, finishJobs, waitForJob } from "./generated";
import { client } from "./generated/client.gen";

declare const process: { env: Record<string, string | undefined> };
client.setConfig({ baseUrl: process.env.DIBS_URL ?? "http://127.0.0.1:7070", auth: process.env.DIBS_TOKEN });

async function main() {
  const queue = "generated";
  const { data: added } = await enqueueJob({ body: { queue, payload: { to: "ann@example.com" } }, throwOnError: true });

  const { data: claim } = await claimJobs({ body: { queue, worker: "generated", wait: "20s" }, throwOnError: true });
  const [job] = claim.jobs;
  if (job.id !== added.id) throw new Error(`claimed job ${job.id}, not ${added.id}`);
  const { id, token } = job;

  const { data: extended } = await extendLeases({ body: { leases: [{ id, token, progress: { done: 1 } }], lease: 60 }, throwOnError: true });
  if (extended.leases[0].cancelled) {
    await finishJobs({ body: { outcomes: [{ id, token, ending: "cancelled" }] }, throwOnError: true });
    return;
  }
  await finishJobs({ body: { outcomes: [{ id, token, ending: "completed", result: { sent: true } }] }, throwOnError: true });

  // Its lease is lost now: the error has a type too.
  const { error, response } = await finishJobs({ body: { outcomes: [{ id, token, ending: "completed" }] } });
  if (!error || !("outcomes" in error)) throw new Error(`finished twice: ${response?.status}`);
  console.log(error.title, error.outcomes[0].problem?.detail);

  const { data: ended } = await waitForJob({ path: { id }, query: { timeout: 5 }, throwOnError: true });
  console.log(ended.id, ended.state, JSON.stringify(ended.result));
}

void main();
