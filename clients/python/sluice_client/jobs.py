"""A decorator for jobs: Celery tasks and plain functions.

    @limited(client, "transcribe", org=lambda org, path: org, hold="10m")
    def transcribe(org, path): ...
"""

import functools
import inspect

from .client import AsyncClient
from .verdict import DeniedError


def limited(client, job, *, hold=None, cost=None, settle=None, retry=None,
            **who):
    """Check the job `job` before each call of a function.

    `user`, `org`, `plan`, `role`, `cost` and `idempotency_key` are values, or
    functions of the call's arguments. With `hold`, the cost is held during
    the call: settled with `settle(result)` or the held cost at its end,
    released if the call raises. A denied call raises DeniedError, or does
    what `retry(verdict, *args, **kwargs)` does; for a bound Celery task:

        retry=lambda verdict, task, *a, **k: task.retry(
            countdown=(verdict.retry_after_ms or 60000) / 1000)
    """
    facts = dict(who, cost=cost)

    def members(args, kwargs):
        made = {"job": job}
        for name, value in facts.items():
            made[name] = value(*args, **kwargs) if callable(value) else value
        if hold is not None:
            made["hold"] = hold
        return made

    def denied(verdict, args, kwargs):
        if retry is None:
            raise DeniedError(verdict)
        return retry(verdict, *args, **kwargs)

    def decorate(function):
        if isinstance(client, AsyncClient):
            if not inspect.iscoroutinefunction(function):
                raise TypeError("an AsyncClient limits async functions; use a "
                                "Client")
            return wrap_async(function)
        return wrap(function)

    def wrap(function):
        @functools.wraps(function)
        def call(*args, **kwargs):
            held = client.hold_of(client.check(**members(args, kwargs)))
            if not held.verdict.allowed:
                return denied(held.verdict, args, kwargs)
            with held:
                result = function(*args, **kwargs)
                if settle:
                    held.settle(settle(result))
            return result

        return call

    def wrap_async(function):
        @functools.wraps(function)
        async def call(*args, **kwargs):
            held = client.hold_of(await client.check(**members(args, kwargs)))
            if not held.verdict.allowed:
                return denied(held.verdict, args, kwargs)
            async with held:
                result = await function(*args, **kwargs)
                if settle:
                    await held.settle(settle(result))
            return result

        return call

    return decorate
