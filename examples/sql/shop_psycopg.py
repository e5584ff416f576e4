# An order and its job in one transaction, with psycopg 3.
import os
import sys

import psycopg
from psycopg.types.json import Json


def order(db, item):
    """Stores an order, and the job that confirms it."""
    [(order_id,)] = db.execute("insert into orders (item) values (%s) returning id", [item])
    db.execute("select dibs.enqueue('mail', %s, kind => 'confirm')", [Json({"order": order_id, "item": item})])


with psycopg.connect(os.environ["DATABASE_URL"]) as db:
    with db.transaction():
        order(db, "a lamp")

    try:
        with db.transaction():
            order(db, "a chair")
            raise RuntimeError("no money")
    except RuntimeError:
        pass  # neither the order nor the job exists

    try:
        db.execute("select dibs.enqueue('mail', priority => -1)")
    except psycopg.Error as e:
        print(e.sqlstate, e.diag.column_name, e.diag.message_primary, sep=" | ")
        db.rollback()
    else:
        sys.exit("a wrong priority was taken")
