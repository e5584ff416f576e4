// An order and its job in one transaction, with node-postgres.
import pg from "pg";

const db = new pg.Client({ connectionString: process.env.DATABASE_URL });
await db.connect();

// Adds an order, and the job that confirms it.
async function order(item) {
  const { rows } = await db.query("insert into orders (item) values ($1) returning id", [item]);
  await db.query("select dibs.enqueue('mail', $1, kind => 'confirm')", [JSON.stringify({ order: Number(rows[0].id), item })]);
}

await db.query("begin");
await order("a lamp");
await db.query("commit");

await db.query("begin");
await order("a chair");
await db.query("rollback"); // neither the order nor the job exists

try {
  await db.query("select dibs.enqueue('mail', priority => -1)");
} catch (e) {
  console.log([e.code, e.column, e.message].join(" | "));
}
await db.end();
