"""TLS of the API over real sockets: accepted versions and clients, and certificates that are replaced while it runs."""

import asyncio
import os
import shutil
import ssl
from pathlib import Path

import aiohttp
import pytest
from structlog.testing import capture_logs

from scheduler_service.runtime.files import FilesUnusable
from scheduler_service.runtime.tls import CERTIFICATE_LOOK_SECONDS
from tests.support.api import ApiHarness
from tests.support.certificates import Authority

HERE = "127.0.0.1"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    (tmp_path / "authority").mkdir()
    return Authority(tmp_path / "authority")


def secured(directory: Path, **more: object) -> ApiHarness:
    """An API with the certificate in a directory."""
    return ApiHarness(tls_cert_file=str(directory / "tls.crt"), tls_key_file=str(directory / "tls.key"), **more)


def trusting(authority: Authority, **limits: ssl.TLSVersion) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority.bundle)
    for name, version in limits.items():
        setattr(context, name, version)
    return context


async def serial_shown(api: ApiHarness, context: ssl.SSLContext) -> int:
    """Send a request over a new connection; returns the serial number of the server's certificate."""
    assert api.server is not None
    reader, writer = await asyncio.open_connection(HERE, api.server.port, ssl=context)
    try:
        writer.write(b"GET /livez HTTP/1.1\r\nHost: api\r\nConnection: close\r\n\r\n")
        answer = await reader.read()
        if not answer.startswith(b"HTTP/1.1 200 "):
            raise ConnectionResetError(f"no answer but {answer!r}")
        return int(writer.get_extra_info("peercert")["serialNumber"], 16)
    finally:
        writer.close()


async def test_an_api_with_a_certificate_is_spoken_to_over_tls_only(tmp_path: Path, authority: Authority) -> None:
    authority.issue(tmp_path, address=HERE)
    async with secured(tmp_path) as api:
        assert await serial_shown(api, trusting(authority))
        assert api.server is not None
        async with aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.ClientError):
                await session.get(f"http://{HERE}:{api.server.port}/livez")


async def test_a_certificate_of_an_unknown_authority_is_refused(tmp_path: Path, authority: Authority) -> None:
    authority.issue(tmp_path, address=HERE)
    async with secured(tmp_path) as api:
        with pytest.raises(ssl.SSLCertVerificationError):
            await serial_shown(api, ssl.create_default_context())


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated")
async def test_what_is_older_than_tls_1_2_is_refused(tmp_path: Path, authority: Authority) -> None:
    authority.issue(tmp_path, address=HERE)
    async with secured(tmp_path) as api:
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            assert await serial_shown(api, trusting(authority, minimum_version=version, maximum_version=version))
        old = trusting(authority)
        old.set_ciphers("ALL:@SECLEVEL=0")
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await serial_shown(api, old)


async def test_a_new_certificate_is_shown_to_the_next_connection(tmp_path: Path, authority: Authority) -> None:
    authority.issue(tmp_path, address=HERE)
    context = trusting(authority)
    async with secured(tmp_path) as api:
        assert api.server is not None
        url = f"https://{HERE}:{api.server.port}/livez"
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context, limit=1)) as older:
            async with older.get(url) as answer:
                assert answer.status == 200
            first = await serial_shown(api, context)
            authority.issue(tmp_path, address=HERE)
            second = await serial_shown(api, context)
            assert second != first
            assert await serial_shown(api, context) == second
            async with older.get(url) as answer:
                assert answer.status == 200, "who is connected stays so"


async def test_a_secret_that_kubernetes_replaces(tmp_path: Path, authority: Authority) -> None:
    mounted = tmp_path / "mounted"
    authority.issue(mounted, address=HERE, stem="x")
    for file in mounted.iterdir():
        file.unlink()
    for version in ("..one", "..two"):
        authority.issue(mounted / version, address=HERE)
        for file in (mounted / version).iterdir():
            os.utime(file, ns=(1, 1))
    (mounted / "..data").symlink_to("..one")
    for name in ("tls.crt", "tls.key"):
        (mounted / name).symlink_to(f"..data/{name}")
    context = trusting(authority)
    async with secured(mounted) as api:
        first = await serial_shown(api, context)
        (mounted / "..data_tmp").symlink_to("..two")
        (mounted / "..data_tmp").rename(mounted / "..data")
        shutil.rmtree(mounted / "..one")
        assert await serial_shown(api, context) != first


async def test_a_pair_that_does_not_fit_is_refused_once_and_the_old_one_kept(
    tmp_path: Path, authority: Authority
) -> None:
    authority.issue(tmp_path, address=HERE)
    authority.issue(tmp_path / "other", address=HERE)
    context = trusting(authority)
    with capture_logs() as said:
        async with secured(tmp_path) as api:
            first = await serial_shown(api, context)
            shutil.copy(tmp_path / "other/tls.crt", tmp_path / "tls.crt")
            assert [await serial_shown(api, context) for _ in range(3)] == [first] * 3
            shutil.copy(tmp_path / "other/tls.key", tmp_path / "tls.key")
            assert await serial_shown(api, context) != first
    (refused,) = [line for line in said if line["event"] == "files-refused"]
    assert str(tmp_path / "tls.crt") in refused["reason"]
    assert "are no certificate and its key" in refused["reason"]


async def test_a_bad_certificate_is_logged_before_any_connection(tmp_path: Path, authority: Authority) -> None:
    authority.issue(tmp_path, address=HERE)
    with capture_logs() as said:
        async with secured(tmp_path) as api:
            (tmp_path / "tls.key").write_text("no key")
            for _ in range(5):
                api.clock.advance(CERTIFICATE_LOOK_SECONDS)
                await serial_shown(api, trusting(authority))
    assert sum(line["event"] == "files-refused" for line in said) == 1


async def test_an_api_does_not_start_with_a_bad_pair(tmp_path: Path, authority: Authority) -> None:
    authority.issue(tmp_path, address=HERE)
    (tmp_path / "tls.key").unlink()
    with pytest.raises(FilesUnusable, match=r"api\.tls_cert_file and tls_key_file name .* can't be read"):
        async with secured(tmp_path):
            pass


async def test_callers_without_a_required_certificate_are_refused(tmp_path: Path, authority: Authority) -> None:
    authority.issue(tmp_path, address=HERE)
    (tmp_path / "others").mkdir()
    clients = Authority(tmp_path / "others")
    async with secured(tmp_path, tls_client_ca_file=str(clients.bundle)) as api:
        context = trusting(authority)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await serial_shown(api, context)
        context.load_cert_chain(*authority.issue(tmp_path, name="not-theirs", stem="wrong"))
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await serial_shown(api, context)
        context = trusting(authority)
        context.load_cert_chain(*clients.issue(tmp_path, name="shop", stem="right"))
        assert await serial_shown(api, context)
