<?php
// A worker that stays: dibs work demo --lines --concurrency 8 -- php worker.php
function tell($job, $what) {
    $flags = JSON_UNESCAPED_UNICODE | JSON_PRESERVE_ZERO_FRACTION | JSON_THROW_ON_ERROR;
    fwrite(STDOUT, json_encode(['id' => $job->id, 'token' => $job->token] + $what, $flags) . "\n");
}

function work($job) {
    switch ($job->kind) {
    case 'echo':
        tell($job, ['progress' => ['done' => 1, 'total' => 2]]);
        return ['ending' => 'completed', 'result' => $job->payload];
    case 'busy': return ['ending' => 'snooze', 'delay' => 60];
    case 'flaky': throw new Exception('the mail server is down, größtenteils');
    case 'crash': fwrite(STDERR, "it crashed\n"); exit(1);
    }
    return ['ending' => 'dead', 'error' => 'there is no such kind'];
}

while (($line = fgets(STDIN)) !== false) {
    $job = json_decode($line); // objects stay objects: an empty one is no empty list
    try {
        tell($job, work($job));
    } catch (Throwable $error) {
        tell($job, ['ending' => 'retry', 'error' => $error->getMessage()]);
    }
}
