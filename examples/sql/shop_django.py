# An order and its job in one transaction, with Django's ORM.
import json
import os
from urllib.parse import unquote, urlsplit

import django
from django.conf import settings

url = urlsplit(os.environ["DATABASE_URL"])
settings.configure(
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": url.path[1:],
            "USER": unquote(url.username),
            "PASSWORD": unquote(url.password or ""),
            "HOST": url.hostname,
            "PORT": url.port,
        }
    },
)
django.setup()

from django.core.serializers.json import DjangoJSONEncoder  # noqa: E402
from django.db import DataError, connection, models, transaction  # noqa: E402


class Order(models.Model):
    item = models.TextField()

    class Meta:
        app_label = "shop"
        db_table = "orders"


def enqueue(queue, payload, **options):
    """Enqueues a job in the transaction that is open; options are those of dibs.enqueue."""
    names = "".join(f", {name} => %s" for name in options)
    with connection.cursor() as c:
        c.execute(f"select dibs.enqueue(%s, %s::json{names})", [queue, json.dumps(payload, cls=DjangoJSONEncoder), *options.values()])
        return c.fetchone()[0]


with transaction.atomic():
    order = Order.objects.create(item="a lamp")
    enqueue("mail", {"order": order.id, "item": order.item}, kind="confirm")

try:
    with transaction.atomic():
        order = Order.objects.create(item="a chair")
        enqueue("mail", {"order": order.id, "item": order.item}, kind="confirm")
        raise RuntimeError("no money")
except RuntimeError:
    pass  # neither the order nor the job exists

try:
    enqueue("mail", None, priority=-1)
except DataError as e:
    diag = e.__cause__.diag
    print(diag.sqlstate, diag.column_name, diag.message_primary, sep=" | ")
