# An order and its job in one transaction on MariaDB, with Ruby's mysql2.
require "json"
require "mysql2"

db = Mysql2::Client.new(
  host: ENV["DB_HOST"], port: ENV["DB_PORT"].to_i, database: ENV["DB_DATABASE"],
  username: ENV["DB_USERNAME"], password: ENV["DB_PASSWORD"], encoding: "utf8mb4"
)

# Adds an order, and the job that confirms it.
def order(db, item)
  db.prepare("insert into orders (item) values (?)").execute(item)
  payload = JSON.generate(order: db.last_id, item: item)
  db.prepare("insert into dibs_inbox (queue, kind, payload) values ('mail', 'confirm', ?)").execute(payload)
end

db.query("begin")
order(db, "a lamp")
db.query("commit")

db.query("begin")
order(db, "a chair")
db.query("rollback") # neither the order nor the job exists

begin
  db.query("insert into dibs_inbox (queue, priority) values ('mail', -1)")
  abort "a wrong priority was taken"
rescue Mysql2::Error => e
  puts "#{e.error_number} | #{e.message}"
end
