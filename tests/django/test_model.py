"""The model without a table: whatever goes over all models must pass it by."""

from __future__ import annotations

import json

import pytest
from django.apps import apps
from django.contrib.admin.sites import site
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.core.management import call_command
from django.db import NotSupportedError, connection
from django.db.migrations.loader import MigrationLoader

from fdbqueue.models import QueueName
from tests.cases import cases

pytestmark = pytest.mark.django_db

FIXTURE = [{"model": "fdbqueue.queuename", "pk": "mail", "fields": {}}]
WRITES = {
    "create": lambda: QueueName.objects.create(name="mail"),
    "get_or_create": lambda: QueueName.objects.get_or_create(name="mail"),
    "update_or_create": lambda: QueueName.objects.update_or_create(name="mail"),
    "bulk_create": lambda: QueueName.objects.bulk_create([QueueName(name="mail")]),
    "save": lambda: QueueName(name="mail").save(),
    "save of the base manager": lambda: QueueName._base_manager.create(name="mail"),
    "delete": lambda: QueueName(name="mail").delete(),
}


@pytest.mark.parametrize(
    "arguments", [[], ["fdbqueue"], ["--all"], ["--all", "fdbqueue.QueueName"]]
)
def test_dumpdata_has_no_queues(arguments, tmp_path):
    """A dump of a project has its other models, and nothing of this one."""
    output = tmp_path / "dump.json"
    call_command("dumpdata", *arguments, output=str(output))
    models = {row["model"] for row in json.loads(output.read_text())}
    assert "fdbqueue.queuename" not in models
    assert ("auth.permission" in models) == (not any("fdbqueue" in name for name in arguments))


def test_a_dump_of_a_project_is_loaded_again(tmp_path):
    """What dumpdata wrote of all models, loaddata takes."""
    output = tmp_path / "dump.json"
    call_command("dumpdata", output=str(output))
    before = Permission.objects.count()
    call_command("loaddata", str(output), verbosity=0)
    assert Permission.objects.count() == before


@pytest.mark.django_db(transaction=True)
def test_flush_goes_on():
    """A flush makes the permissions again, and asks for no table."""
    call_command("flush", interactive=False, verbosity=0)
    assert Permission.objects.filter(content_type__app_label="fdbqueue").count() == 5


def test_querysets_are_empty_without_asking_the_database(django_assert_num_queries):
    """Each way of reading finds nothing, from any manager, and runs no statement."""
    with django_assert_num_queries(0):
        for manager in (QueueName.objects, QueueName._default_manager, QueueName._base_manager):
            assert list(manager.all()) == list(manager.filter(name="mail").order_by("-name")) == []
            assert manager.using("default").count() == 0
            assert not manager.exists()
            assert manager.first() is None
            assert manager.in_bulk(["mail"]) == {}
            assert list(manager.values_list("name").iterator()) == []
            assert manager.update(name="mail") == 0
    assert QueueName.objects.all().delete() == (0, {})
    with pytest.raises(QueueName.DoesNotExist):
        QueueName.objects.get(name="mail")
    with pytest.raises(QueueName.DoesNotExist):
        QueueName(name="mail").refresh_from_db()


@cases("write", WRITES.values())
def test_rows_are_refused(write):
    """What would write a row says that queues are not rows, and where to make them."""
    with pytest.raises(NotSupportedError, match=r"not rows of a database.*FDBQUEUE"):
        write()


def test_loaddata_of_a_queue_is_refused(tmp_path):
    """A fixture that holds a queue is told that it cannot be loaded, and why."""
    fixture = tmp_path / "queues.json"
    fixture.write_text(json.dumps(FIXTURE))
    with pytest.raises(NotSupportedError, match=r"mail.*not rows of a database"):
        call_command("loaddata", str(fixture), verbosity=0)


def test_there_is_no_table_but_a_content_type_and_permissions():
    """Nothing but what names the permissions is in the database."""
    assert QueueName._meta.db_table not in connection.introspection.table_names()
    kind = ContentType.objects.get_for_model(QueueName)
    names = set(Permission.objects.filter(content_type=kind).values_list("codename", flat=True))
    assert names == {"view_queue", "push_queue", "pop_queue", "lease_queue", "manage_queue"}
    with pytest.raises(QueueName.DoesNotExist):
        kind.get_object_for_this_type(name="mail")


def test_migrations_of_others_can_have_the_model():
    """The model as migrations see it has its managers."""
    historical = MigrationLoader(connection).project_state().apps.get_model("fdbqueue", "QueueName")
    assert historical._base_manager.name == historical._default_manager.name == "objects"


def test_the_admin_has_an_empty_queryset(rf):
    """Whatever asks the ModelAdmin for its rows, as search in all models does, gets none."""
    model_admin = site.get_model_admin(apps.get_model("fdbqueue", "QueueName"))
    assert list(model_admin.get_queryset(rf.get("/"))) == []
