"""Settings from environment and TOML: precedence, refusals, and that the printed file is complete."""

import tomllib
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

from minutehand.config import FOR_API, FOR_NODE, TABLES, load_settings
from minutehand.config_values import ConfigurationInvalid
from minutehand.reference_pages import defaults, field_docs, render_page, summary

KEY = "an-administrators-key"
TOKEN = "the-token-of-the-cluster"
SECRETS = {"MINUTEHAND_API_ADMIN_KEY": KEY, "MINUTEHAND_CLUSTER_TOKEN": TOKEN}


def write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "minutehand.toml"
    file.write_text(text, encoding="utf-8")
    return file


def faults(environment: dict[str, str], file: Path | None = None, required: tuple[str, ...] = ()) -> list[str]:
    with pytest.raises(ConfigurationInvalid) as caught:
        load_settings(environment=environment, file=file, required=required)
    return [str(fault) for fault in caught.value.faults]


def test_the_printed_file_is_the_defaults(tmp_path: Path) -> None:
    page = render_page(TABLES)
    assert load_settings(environment=SECRETS, file=write(tmp_path, page)) == load_settings(environment=SECRETS)
    document = tomllib.loads(page)
    assert list(document) == [table.name for table in TABLES]
    for table in TABLES:
        given = {name for name, value in defaults(table).items() if value is not None and name not in table.secrets}
        assert document[table.name].keys() == given


def test_every_setting_is_documented_and_printed() -> None:
    page = render_page(TABLES)
    for table in TABLES:
        docs = field_docs(table.type)
        assert len(summary(table.type)) > 20, table.name
        _, _, rest = page.partition(f"\n[{table.name}]\n")
        section = rest.partition("\n\n\n")[0]
        for name in table.typed_keys():
            assert len(docs.get(name, "")) > 15, f"{table.name}.{name} has no doc"
            assert f"\n{name} = " in section or f"\n# {name} =" in section or f"\n# {name}_file =" in section


def test_every_default_is_a_value_of_its_type() -> None:
    for table in TABLES:
        required = [one.name for one in fields(table.type) if one.default is MISSING and one.default_factory is MISSING]
        assert set(required) <= table.secrets, "what has no default must be a secret that a command can ask for"


def test_the_environment_wins_over_the_file_and_the_file_over_defaults(tmp_path: Path) -> None:
    file = write(tmp_path, '[cassandra]\ncontact_points = ["one"]\nport = 1111\n[api]\nport = 1\n')
    settings = load_settings(
        environment={**SECRETS, "MINUTEHAND_CONFIG": str(file), "MINUTEHAND_CASSANDRA_CONTACT_POINTS": "two, three"}
    )
    assert settings.cassandra.contact_points == ("two", "three")
    assert settings.cassandra.port == 1111
    assert settings.cassandra.keyspace == "minutehand"
    assert settings.api is not None
    assert settings.api.port == 1


def test_nothing_listens_beyond_loopback_unless_configured() -> None:
    settings = load_settings(environment=SECRETS)
    assert settings.api is not None
    assert (settings.api.host, settings.ops.host) == ("127.0.0.1", "127.0.0.1")
    assert settings.network.check_url("http://127.0.0.1/") is not None


def test_rooms_share_what_they_must_share() -> None:
    environment = {**SECRETS, "MINUTEHAND_NETWORK_ALLOW": "127.0.0.0/8", "MINUTEHAND_MINUTE_RECORD_ROWS": "100"}
    settings = load_settings(environment=environment)
    assert settings.api is not None
    assert settings.api.network == settings.network
    assert settings.network.check_url("http://127.0.0.1/") is None
    assert settings.node.minute.record_rows == 100


def test_secrets_come_from_files_without_the_white_space_around_them(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"{KEY}\n", encoding="utf-8")
    (tmp_path / "token").write_text(TOKEN, encoding="utf-8")
    file = write(tmp_path, f'[api]\nadmin_key_file = "{tmp_path / "key"}"\n')
    settings = load_settings(
        environment={"MINUTEHAND_CLUSTER_TOKEN_FILE": str(tmp_path / "token")}, file=file, required=FOR_API
    )
    assert settings.api is not None
    assert (settings.api.admin_key, settings.cluster.token) == (KEY, TOKEN)


def test_secrets_are_not_shown() -> None:
    settings = load_settings(
        environment={**SECRETS, "MINUTEHAND_CASSANDRA_USERNAME": "u", "MINUTEHAND_CASSANDRA_PASSWORD": "pw-x"}
    )
    assert KEY not in repr(settings)
    assert TOKEN not in repr(settings)
    assert "pw-x" not in repr(settings)


def test_every_fault_is_named_at_once(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        """
colour = "red"
hints = 3
[api]
port = "8080"
prot = 1
[cassandra]
contact_points = "127.0.0.1"
[cluster]
token_file = "/nowhere/at/all"
[network]
allow = ["10.0.0.1/8"]
[membership]
dead_after_seconds = 1.0
""",
    )
    found = faults({"MINUTEHAND_API_SHARE_PORT": "maybe", "MINUTEHAND_APY_PORT": "1"}, file, FOR_API)
    for wanted in (
        "unknown table or key 'colour'",
        "[hints] in",
        "api.port must be a whole number, not '8080'.",
        "api.prot is not known: use one of admin_key, host, port",
        "cassandra.contact_points must be a list",
        "cluster.token_file names /nowhere/at/all, which can't be read (no such file or directory)",
        "[network] 10.0.0.1/8 has host bits set.",
        "[membership] dead_after_seconds is 1; it must be at least",
        "MINUTEHAND_API_SHARE_PORT must be true or false, not 'maybe'.",
        "MINUTEHAND_APY_PORT is not a known setting",
        "api.admin_key is required: set MINUTEHAND_API_ADMIN_KEY",
        "cluster.token is required",
    ):
        assert sum(wanted in fault for fault in found) == 1, wanted
    assert len(found) == 12
    assert all(fault.endswith(".") for fault in found)


def test_a_secret_given_wrongly_is_not_repeated(tmp_path: Path) -> None:
    (fault,) = faults({"MINUTEHAND_CLUSTER_TOKEN": "too-short"})
    assert "at least 16" in fault
    assert "too-short" not in fault
    assert faults({}, write(tmp_path, "[cluster]\ntoken = 271828\n")) == ["cluster.token must be a text."]


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({"MINUTEHAND_CASSANDRA_REQUEST_TIMEOUT_SECONDS": "4"}, "must be below membership.trust_seconds (4)"),
        ({"MINUTEHAND_CASSANDRA_LIVENESS_TIMEOUT_SECONDS": "4"}, "must be below membership.trust_seconds (4)"),
        (
            {
                "MINUTEHAND_API_ADMIN_KEY": "0123456789abcdef",
                "MINUTEHAND_API_HOST": "0.0.0.0",
                "MINUTEHAND_GOSCHEDULER_APPS": "test",
            },
            "[goscheduler] lets callers without a key in, and the API listens on 0.0.0.0",
        ),
        ({**SECRETS, "MINUTEHAND_API_REQUEST_TIMEOUT_SECONDS": "2"}, "must be below api.request_timeout_seconds (2)"),
        ({"MINUTEHAND_MINUTE_GRACE_MS": "3000"}, "minute.grace_ms is 3000; it must be at least 4000"),
        ({"MINUTEHAND_CASSANDRA_USERNAME": "x"}, "username and password go together"),
        ({"MINUTEHAND_CASSANDRA_PASSWORD_FILE": "/p"}, "username and password go together"),
        (
            {f"MINUTEHAND_CASSANDRA_{name}": "x" for name in ("USERNAME", "PASSWORD", "PASSWORD_FILE")},
            "password and password_file: give one of them",
        ),
        ({**SECRETS, "MINUTEHAND_API_TLS_CERT_FILE": "x"}, "tls_cert_file and tls_key_file go together"),
        ({**SECRETS, "MINUTEHAND_API_TLS_CLIENT_CA_FILE": "x"}, "tls_client_ca_file: needs tls_cert_file"),
        ({"MINUTEHAND_CASSANDRA_TLS_SERVER_NAME": "x"}, "tls_ca_file: must be given"),
        ({"MINUTEHAND_LOGGING_LEVEL": "loud"}, "level: use one of debug, info, warning, error."),
        ({"MINUTEHAND_OPS_PORT": "70000"}, "port: must be from 0 to 65535."),
    ],
)
def test_what_contradicts_itself_is_refused(environment: dict[str, str], wanted: str) -> None:
    (fault,) = faults(environment)
    assert wanted in fault


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert "can't be read (No such file or directory)" in faults({}, tmp_path / "absent")[0]
    assert "is not valid TOML" in faults({}, write(tmp_path, "[api\n"))[0]
    (tmp_path / "latin").write_bytes(b"# \xe4\n")
    assert "is not UTF-8" in faults({}, tmp_path / "latin")[0]


def test_a_secret_in_two_places_is_refused(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN, encoding="utf-8")
    both = {"MINUTEHAND_CLUSTER_TOKEN": TOKEN, "MINUTEHAND_CLUSTER_TOKEN_FILE": str(tmp_path / "token")}
    assert "both given" in faults(both)[0]
    file = write(tmp_path, f'[cluster]\ntoken = "{TOKEN}"\ntoken_file = "x"\n')
    assert "both given" in faults({}, file)[0]
    (tmp_path / "empty").touch()
    assert "is empty" in faults({"MINUTEHAND_CLUSTER_TOKEN_FILE": str(tmp_path / "empty")})[0]


def test_what_others_read_from_the_environment_is_left_alone() -> None:
    others = {"MINUTEHAND_CACHE_DIR": "x", "MINUTEHAND_URL": "x", "MINUTEHAND_KEY": "x", "MINUTEHAND_JAVA_HOME": "x"}
    assert load_settings(environment=others) == load_settings(environment={})


def test_a_node_needs_no_administrators_key() -> None:
    settings = load_settings(environment={"MINUTEHAND_CLUSTER_TOKEN": TOKEN}, required=FOR_NODE)
    assert settings.api is None
