"""Credentials as the demo project takes them: a token, a password, a session with CSRF."""

from __future__ import annotations

import base64

import pytest
from django.contrib.auth.models import User
from rest_framework.authtoken.models import Token
from rest_framework.test import APIClient

PUSH = "/api/queues/mail/push/"


@pytest.fixture
def user(user_with, queues, quick_passwords):
    """A user who may push."""
    user = user_with("push_queue")
    user.set_password("secret")
    user.save()
    return user


@pytest.fixture
def client(db):
    """A client with nothing, for which CSRF is checked as for a browser."""
    client = APIClient(enforce_csrf_checks=True)
    client.default_format = "json"
    return client


def basic(name, password):
    """Return the header of a user and a password."""
    return f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"


def check_unauthorized(response, code):
    """Check what is said to those whose credentials are missing or wrong."""
    assert response.status_code == 401
    assert response.json()["code"] == code
    assert response["WWW-Authenticate"] == "Token"


def test_a_token(client, user):
    """A user's token will do; another one, or half of it, will not."""
    token = Token.objects.create(user=user).key
    allowed = client.post(PUSH, {"value": 1}, headers={"Authorization": f"Token {token}"})
    assert allowed.status_code == 201
    for wrong in (token[:-1], "x" * 40, f"{token} {token}", "\xff"):
        headers = {"Authorization": f"Token {wrong}"}
        check_unauthorized(client.post(PUSH, {}, headers=headers), "authentication_failed")


def test_a_password(client, user):
    """A user and a password will do, without a session or a CSRF token."""
    name = user.get_username()
    allowed = client.post(PUSH, {"value": 1}, headers={"Authorization": basic(name, "secret")})
    assert allowed.status_code == 201
    for header in (basic(name, "wrong"), basic("nobody", "secret"), "Basic ?", "Basic"):
        refused = client.post(PUSH, {"value": 1}, headers={"Authorization": header})
        check_unauthorized(refused, "authentication_failed")


@pytest.mark.parametrize(
    "verb", ["push", "pop", "lease", "ack", "nack", "extend", "pause", "resume"]
)
def test_every_verb_needs_the_csrf_token(client, queues, verb):
    """Whatever changes a queue is safe from other sites' forms, key or no key."""
    client.force_login(User.objects.create_superuser("root"))
    for content in ({}, {"headers": {"Idempotency-Key": "key"}}):
        response = client.post(f"/api/queues/mail/{verb}/", {}, **content)
        assert (response.status_code, response.json()["code"]) == (403, "permission_denied")


@pytest.mark.parametrize("kind", ["token", "password", "session"])
def test_a_deactivated_user(client, user, kind):
    """No kind of credentials of such a user is good."""
    token = Token.objects.create(user=user).key
    headers = {}
    if kind == "session":
        client.force_login(user)
    else:
        header = basic(user.get_username(), "secret") if kind == "password" else f"Token {token}"
        headers = {"Authorization": header}
    User.objects.filter(pk=user.pk).update(is_active=False)
    assert client.post(PUSH, {"value": 1}, headers=headers).status_code == 401
    assert client.get("/api/queues/", headers=headers).status_code == 401


def test_a_permission_that_was_withdrawn(client, user):
    """It is asked for at each request."""
    headers = {"Authorization": f"Token {Token.objects.create(user=user).key}"}
    assert client.post(PUSH, {"value": 1}, headers=headers).status_code == 201
    user.user_permissions.clear()
    assert client.post(PUSH, {"value": 1}, headers=headers).status_code == 403
