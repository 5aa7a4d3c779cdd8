"""Resolves the names of attempts, each within its time for connecting."""

import asyncio
from collections.abc import Callable, Set
from functools import partial

from poller_cluster.delivery.attempt import Attempt
from poller_cluster.delivery.resolver import Found, Resolver, ResolverBounds, Waiting
from poller_cluster.delivery.resolver_cares import CaresLookUp
from poller_cluster.delivery.settings import DeliverySettings
from poller_cluster.delivery.target import Target

OnNamed = Callable[[Attempt, Found | None], None]


class Naming:
    """The look-ups of one engine, on its loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, settings: DeliverySettings) -> None:
        self._loop = loop
        self._look_up = CaresLookUp(
            loop,
            nameservers=settings.nameservers,
            seconds=settings.connect_timeout_seconds,
            cache=settings.dns_cache_seconds > 0,
        )
        self._resolver = Resolver(
            look_up=self._look_up,
            now=loop.time,
            later=lambda seconds, callback: loop.call_later(seconds, callback),
            bounds=ResolverBounds(
                cache_seconds=settings.dns_cache_seconds,
                stale_seconds=settings.connection_lifetime_seconds if settings.dns_cache_seconds else 0,
                names_at_once=settings.lookups_at_once,
                names_per_client=settings.lookups_per_client,
                remembered_per_client=settings.names_per_client,
            ),
        )
        self._waiting: dict[Attempt, tuple[Waiting | None, asyncio.TimerHandle]] = {}

    def find(self, attempt: Attempt, target: Target, on_named: OnNamed) -> tuple[str, ...] | None:
        """The addresses of the attempt's target. None: they are being looked up, and `on_named` is called once, with
        None if that took too long."""
        if target.addresses is not None:
            return target.addresses
        request = attempt.request
        known = self._resolver.known(request.client_id, target.host)
        if known is not None and known.failure is None:
            return known.addresses
        found = self._resolver.find(request.client_id, target.host, partial(self._found, attempt, on_named))
        if isinstance(found, Waiting):
            timer = self._loop.call_later(attempt.connect_timeout_seconds, self._over, attempt, on_named)
            self._waiting[attempt] = (found, timer)
            return None
        if found.failure is None:
            return found.addresses
        # The failure is cached. It is reported later, because no attempt may end within `start_attempt`.
        handle = self._loop.call_later(0, self._found, attempt, on_named, found)
        self._waiting[attempt] = (None, handle)
        return None

    def _found(self, attempt: Attempt, on_named: OnNamed, found: Found) -> None:
        if attempt in self._waiting:
            _, timer = self._waiting.pop(attempt)
            timer.cancel()
            on_named(attempt, found)

    def _over(self, attempt: Attempt, on_named: OnNamed) -> None:
        waiting, _ = self._waiting.pop(attempt)
        if waiting is not None:
            self._resolver.give_up(waiting)
        on_named(attempt, None)

    def close(self) -> Set[Attempt]:
        """End all look-ups without calling back. Returns the attempts that waited."""
        unnamed = set(self._waiting)
        for _, timer in self._waiting.values():
            timer.cancel()
        self._waiting.clear()
        self._look_up.close()
        return unnamed
