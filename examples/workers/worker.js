#!/usr/bin/env node
// A worker that stays: dibs work demo --lines --concurrency 8 -- node worker.js
const lines = require('readline').createInterface({ input: process.stdin });

const tell = (job, what) => process.stdout.write(JSON.stringify({ id: job.id, token: job.token, ...what }) + '\n');

async function work(job) {
  switch (job.kind) {
    case 'echo':
      tell(job, { progress: { done: 1, total: 2 } });
      return { ending: 'completed', result: job.payload };
    case 'busy': return { ending: 'snooze', delay: 60 };
    case 'flaky': throw new Error('the mail server is down, größtenteils');
    case 'crash': console.error('it crashed'); process.exit(1);
  }
  return { ending: 'dead', error: 'there is no such kind' };
}

lines.on('line', async (line) => {
  const job = JSON.parse(line);
  tell(job, await work(job).catch((error) => ({ ending: 'retry', error: error.message })));
});
