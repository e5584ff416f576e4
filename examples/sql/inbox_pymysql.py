# An order and its job in one transaction on MariaDB, with PyMySQL.
import json
import os
import sys

import pymysql


def order(cursor, item):
    """Stores an order, and the job that confirms it."""
    cursor.execute("insert into orders (item) values (%s)", [item])
    payload = json.dumps({"order": cursor.lastrowid, "item": item})
    cursor.execute("insert into dibs_inbox (queue, kind, payload) values ('mail', 'confirm', %s)", [payload])


db = pymysql.connect(
    host=os.environ["DB_HOST"], port=int(os.environ["DB_PORT"]), database=os.environ["DB_DATABASE"],
    user=os.environ["DB_USERNAME"], password=os.environ["DB_PASSWORD"], charset="utf8mb4",
)
with db, db.cursor() as cursor:
    order(cursor, "a lamp")
    db.commit()

    order(cursor, "a chair")
    db.rollback()  # neither the order nor the job exists

    try:
        cursor.execute("insert into dibs_inbox (queue, priority) values ('mail', -1)")
    except pymysql.Error as e:
        code, message = e.args
        print(code, message, sep=" | ")
        db.rollback()
    else:
        sys.exit("a wrong priority was taken")
