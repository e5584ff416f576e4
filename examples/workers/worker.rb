#!/usr/bin/env ruby
# A worker that stays: dibs work demo --lines --concurrency 8 -- ruby worker.rb
require 'json'
$stdin.set_encoding('UTF-8')
$stdout.sync = true # each line is written at once

def tell(job, **what) = $stdout.write(JSON.generate({ id: job['id'], token: job['token'], **what }) + "\n")

def work(job)
  case job['kind']
  when 'echo'
    tell(job, progress: { done: 1, total: 2 })
    { ending: 'completed', result: job['payload'] }
  when 'busy' then { ending: 'snooze', delay: 60 }
  when 'flaky' then raise 'the mail server is down, größtenteils'
  when 'crash' then abort 'it crashed'
  else { ending: 'dead', error: 'there is no such kind' }
  end
end

$stdin.each_line do |line|
  job = JSON.parse(line)
  tell(job, **work(job))
rescue => error
  tell(job, ending: 'retry', error: error.message)
end
