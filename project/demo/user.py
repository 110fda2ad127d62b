"""The user of the demo, who may do everything with queues."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from rest_framework.authtoken.models import Token

#: The name and the password, which everybody knows: only for DEBUG.
NAME = "demo"
#: What the page of ``/login/`` is shown with.
ON_LOGIN: dict[str, str] = {}


def show_login() -> None:
    """Let the login pages say it, in this process alone."""
    ON_LOGIN["demo_user"] = NAME
    admin.site.login_template = "project/admin_login.html"


def create_user() -> str:
    """Create the user unless there is one, and return the token for the REST API."""
    user, is_new = get_user_model().objects.get_or_create(
        username=NAME, defaults={"is_staff": True}
    )
    if is_new:
        user.set_password(NAME)
        user.save()
    user.user_permissions.add(*Permission.objects.filter(content_type__app_label="fdbqueue"))
    token, _ = Token.objects.get_or_create(user=user)
    return token.key
