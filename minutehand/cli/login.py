"""`minutehand login`, `logout` and `profiles`, and the use of a profile by every other command."""

import os
import sys
from typing import Annotated

import typer

from minutehand.cli.options import CA_FILE_VARIABLE, DEFAULT_URL, AsJson, trust
from minutehand.cli.output import fail, print_json, print_table, say

app = typer.Typer()

PROFILE_VARIABLE = "MINUTEHAND_PROFILE"
_URL_VARIABLE, _KEY_VARIABLE = "MINUTEHAND_URL", "MINUTEHAND_KEY"
WITHOUT_PROFILE = frozenset(
    (
        "api",
        "cassandra",
        "config",
        "demo",
        "login",
        "logout",
        "metrics",
        "migrate",
        "node",
        "profiles",
        "secrets",
        "spark",
    )
)
"""Commands that call no API. A profile that can't be read does not keep a node from its start."""

ProfileName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the profile.", show_default=True)]


def use_profile(command: str | None, named: str | None) -> None:
    """Make this command take address and key from a profile.

    `named` by --profile; else by MINUTEHAND_PROFILE; else the one of the name `default`, where neither address nor key
    is in the environment. A profile is taken as a whole: its key is never sent to an address from the environment.
    """
    if command is None or command in WITHOUT_PROFILE:
        return
    from minutehand.profiles import DEFAULT_PROFILE, profiles_file, read_profiles

    name = named or os.environ.get(PROFILE_VARIABLE)
    if name is None and (os.environ.get(_URL_VARIABLE) or os.environ.get(_KEY_VARIABLE)):
        return
    profile = read_profiles().get(name or DEFAULT_PROFILE)
    if profile is None:
        if name is not None:
            fail(f"There is no profile {name} in {profiles_file()}: see `minutehand login {name}`.")
        return
    os.environ[_URL_VARIABLE], os.environ[_KEY_VARIABLE] = profile.url, profile.key
    if profile.ca_file is not None and not os.environ.get(CA_FILE_VARIABLE):
        trust(profile.ca_file)


@app.command(epilog="Example: minutehand login shop --url https://minutehand.example")
def login(
    name: ProfileName = "default",
    url: Annotated[str, typer.Option("--url", help="Address of the API.", show_default=True)] = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Keep an address and a key under a name, for --profile NAME and MINUTEHAND_PROFILE.

    The key is asked for, or read from standard input. The profile `default` is used where no other is named and neither
    MINUTEHAND_URL nor MINUTEHAND_KEY is set. The file is readable by you only. With --ca-file (before `login`) the
    authorities' file is kept too.
    """
    from minutehand.profiles import Profile, profiles_file, write_profile

    if not url.startswith(("http://", "https://")):
        fail("--url begins with http:// or https://.")
    key = typer.prompt("Key", hide_input=True) if sys.stdin.isatty() else sys.stdin.readline()
    key = key.strip()
    if not key or not (key.isascii() and key.isprintable()) or " " in key:
        fail("The key is no key: give one line of ASCII without spaces.")
    ca_file = os.environ.get(CA_FILE_VARIABLE)
    write_profile(name, Profile(url=url, key=key, ca_file=os.path.abspath(ca_file) if ca_file else None))
    if as_json:
        print_json({"name": name, "url": url, "file": str(profiles_file())})
        return
    say(f"The profile {name} is kept in {profiles_file()}.")


@app.command(epilog="Example: minutehand logout shop")
def logout(name: ProfileName = "default", as_json: AsJson = False) -> None:
    """Forget a profile on this machine. Its key stays valid: revoke it with `keys revoke` or `admin-keys revoke`."""
    from minutehand.profiles import delete_profile

    if not delete_profile(name):
        fail(f"There is no profile {name}.")
    if as_json:
        print_json({"name": name, "forgotten": True})
        return
    say(f"The profile {name} is forgotten.")


@app.command(epilog="Example: minutehand profiles")
def profiles(as_json: AsJson = False) -> None:
    """List the profiles on this machine, without their keys."""
    from minutehand.profiles import read_profiles

    found = read_profiles()
    if as_json:
        print_json([{"name": name, "url": one.url, "ca_file": one.ca_file} for name, one in found.items()])
        return
    print_table(("NAME", "URL", "CA FILE"), [(name, one.url, one.ca_file) for name, one in found.items()])
