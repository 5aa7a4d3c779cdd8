"""The headers a receiver gets."""

from typing import Any

from poller_cluster.delivery.headers import callback_headers, user_agent

SCHEDULE_ID = "019a9f8e-0000-8000-8000-000000000001"


def headers(*user: tuple[str, str], **differing: Any) -> list[tuple[str, str]]:
    values: dict[str, Any] = {
        "timestamp": 1_795_253_400,
        "signature": "v1,abc=",
        "client_id": "shop",
        "schedule_id": SCHEDULE_ID,
        "cron_id": None,
        "due_ms": 1_795_253_400_250,
        "attempt": 2,
        "fence": 9,
        "in_doubt": False,
        "user_agent": user_agent("0.1.0"),
    }
    return list(callback_headers(user, **(values | differing)))


def test_every_header_of_ours_is_sent() -> None:
    assert headers() == [
        ("webhook-id", SCHEDULE_ID),
        ("webhook-timestamp", "1795253400"),
        ("Minutehand-Client", "shop"),
        ("Minutehand-Schedule-Id", SCHEDULE_ID),
        ("Minutehand-Due", "2026-11-21T09:30:00.250Z"),
        ("Minutehand-Attempt", "2"),
        ("Minutehand-Fence", "9"),
        ("User-Agent", "Minutehand/0.1.0"),
        ("webhook-signature", "v1,abc="),
    ]


def test_optional_headers_are_sent_only_where_they_apply() -> None:
    assert ("Minutehand-Cron-Id", "nightly") in headers(cron_id="nightly")
    assert ("Minutehand-Redelivery", "true") in headers(in_doubt=True)
    assert "webhook-signature" not in dict(headers(signature=""))


def test_the_user_s_come_first_and_cannot_replace_ours() -> None:
    sent = headers(
        ("content-type", "text/plain"),
        ("Webhook-ID", "forged"),
        ("minutehand-fence", "0"),
        ("user-agent", "me"),
        ("X-Two", "b"),
    )
    assert sent[:2] == [("content-type", "text/plain"), ("X-Two", "b")]
    assert sent[2:] == headers()
