"""SENTINEL SET, CONFIG and DEBUG: options and their values, each read and refused as the server does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from cluster_core.errors import ProtocolError
from cluster_core.sentinel.commands.patterns import matches
from cluster_core.sentinel.commands.reports import encoded
from cluster_core.sentinel.directory import propagate_down_after
from cluster_core.sentinel.instance import Instance
from cluster_core.sentinel.links import drop_instances, drop_sentinels
from cluster_core.sentinel.numbers import whole_number
from cluster_core.sentinel.settings import DEBUG_NAMES
from cluster_core.sentinel.state import SentinelState
from cluster_core.wire.resp import RespMap

SCRIPTS_DENIED: Final = (
    "ERR Reconfiguration of scripts path is denied for security reasons. Check the deny-scripts-reconfig "
    "configuration directive in your Sentinel configuration"
)


class _WrongValueError(Exception):
    """A value that the option cannot have; *value* is shown."""

    def __init__(self, value: str) -> None:
        self.value = value
        super().__init__(value)


# -- SENTINEL SET ------------------------------------------------------------------------------------------------------


def set_options(state: SentinelState, master: Instance, words: list[str]) -> Any:
    """Set options of *master* one by one; what stands before a mistake has been set (sentinelSetCommand)."""
    at = changes = 0
    try:
        while at < len(words):
            option = words[at].lower()
            count, take = _OPTIONS.get(option, (0, None))
            values = words[at + 1 : at + 1 + count]
            if take is None or len(values) < count:
                raise ProtocolError(f"ERR Unknown option or number of arguments for SENTINEL SET '{words[at]}'")
            try:
                take(state, master, *values)
            except _WrongValueError as error:
                text = f"ERR Invalid argument '{error.value}' for SENTINEL SET '{words[at]}'"
                raise ProtocolError(text) from None
            changes += 1
            shown = ["******"] if option == "auth-pass" else values
            state.tell_of("#", "+set", master, " ".join((words[at], *shown)))
            at += 1 + count
    finally:
        if changes:
            state.save()
    return "OK"


def _number(field: str, least: int = 1) -> Callable[[SentinelState, Instance, str], None]:
    def take(state: SentinelState, master: Instance, value: str) -> None:
        number = whole_number(value)
        if number is None or number < least:
            raise _WrongValueError(value)
        setattr(master, field, number)
        if field == "down_after_ms":
            propagate_down_after(master)

    return take


def _script(state: SentinelState, master: Instance, value: str) -> None:
    """Scripts are not run here, so there is none that could be (the server asks for an executable file)."""
    if state.denies_scripts:
        raise ProtocolError(SCRIPTS_DENIED)
    raise ProtocolError("ERR Notification script seems non existing or non executable")


def _login(field: str) -> Callable[[SentinelState, Instance, str], None]:
    def take(state: SentinelState, master: Instance, value: str) -> None:
        setattr(master, field, value)
        drop_instances(state, master)

    return take


def _rename(state: SentinelState, master: Instance, old: str, new: str) -> None:
    if not old or not new:
        raise _WrongValueError(old if new else new)
    master.renamed.pop(old.lower(), None)
    if old.lower() != new.lower():
        master.renamed[old.lower()] = new


_OPTIONS: Final[dict[str, tuple[int, Callable[..., None]]]] = {
    "down-after-milliseconds": (1, _number("down_after_ms")),
    "failover-timeout": (1, _number("failover_timeout_ms")),
    "parallel-syncs": (1, _number("parallel_syncs")),
    "quorum": (1, _number("quorum")),
    "master-reboot-down-after-period": (1, _number("reboot_down_after_ms", least=0)),
    "notification-script": (1, _script),
    "client-reconfig-script": (1, _script),
    "auth-pass": (1, _login("auth_pass")),
    "auth-user": (1, _login("auth_user")),
    "rename-command": (2, _rename),
}
"""Options, how many values they take, and what sets them."""

# -- SENTINEL CONFIG ---------------------------------------------------------------------------------------------------


def configure(state: SentinelState, words: list[str]) -> Any:
    """SENTINEL CONFIG SET and GET, of one option, in Valkey of several."""
    action, rest = words[0].lower(), words[1:]
    several = state.settings.dialect.startswith("valkey")
    if action == "set" and (len(rest) == 2 or (several and len(rest) > 1)):
        return _config_set(state, rest)
    if action == "get" and (len(rest) == 1 or (several and rest)):
        shown = [name for name in _CONFIG if any(_fits(pattern, name) for pattern in rest)]
        return RespMap(tuple((name.encode(), encoded(_CONFIG[name][0](state))) for name in shown))
    raise ProtocolError(f"ERR Only SENTINEL CONFIG {_CONFIG_FORMS[several]} are supported.")


_CONFIG_FORMS: Final = (
    "GET <option> / SET <option> <value>",
    "GET <param> [<param> <param> ...] / SET <param> <value> [<param> <value> ...]",
)
"""What may be said, of one option and of several."""


def _fits(pattern: str, name: str) -> bool:
    return matches(encoded(pattern), name.encode(), no_case=True)


def _config_set(state: SentinelState, words: list[str]) -> Any:
    for option, value in zip(words[::2], (*words[1::2], None), strict=False):
        found = _CONFIG.get(option.lower())
        if found is None:
            raise ProtocolError(f"ERR Invalid argument '{option}' to SENTINEL CONFIG SET")
        if value is None:
            raise ProtocolError(f"ERR Missing argument '{option}' value")
        if not found[1](state, value):
            raise ProtocolError(f"ERR Invalid value '{value}' to SENTINEL CONFIG SET '{option}'")
    state.save()
    return "OK"


def _yes_no(field: str) -> tuple[Callable[[SentinelState], str], Callable[[SentinelState, str], bool]]:
    def put(state: SentinelState, value: str) -> bool:
        if value.lower() not in ("yes", "no"):
            return False
        setattr(state, field, value.lower() == "yes")
        return True

    return (lambda state: "yes" if getattr(state, field) else "no"), put


def _text(
    field: str, then: Callable[[SentinelState], None] | None = None
) -> tuple[Callable[[SentinelState], str], Callable[[SentinelState, str], bool]]:
    def put(state: SentinelState, value: str) -> bool:
        setattr(state, field, value)
        if then is not None:
            then(state)
        return True

    return (lambda state: str(getattr(state, field))), put


def _put_port(state: SentinelState, value: str) -> bool:
    port = whole_number(value)
    if port is None or not 0 <= port <= 65535:
        return False
    state.announce_port = port
    return True


_CONFIG: Final[dict[str, tuple[Callable[[SentinelState], str], Callable[[SentinelState, str], bool]]]] = {
    "resolve-hostnames": _yes_no("resolve_hostnames"),
    "announce-hostnames": _yes_no("announce_hostnames"),
    "announce-ip": _text("announce_ip"),
    "announce-port": (lambda state: str(state.announce_port), _put_port),
    "sentinel-user": _text("auth_user", drop_sentinels),
    "sentinel-pass": _text("auth_pass", drop_sentinels),
}
"""Options, how each is shown, and what sets it: False for a value that it cannot have."""

# -- SENTINEL DEBUG ----------------------------------------------------------------------------------------------------


def debug(state: SentinelState, words: list[str]) -> Any:
    """Show the periods, or change some of them (sentinelSetDebugConfigParameters)."""
    periods = state.periods
    if not words:
        shown = ((name.upper().encode(), str(getattr(periods, at)).encode()) for name, at in DEBUG_NAMES.items())
        return RespMap(tuple(shown))
    for option, value in zip(words[::2], (*words[1::2], None), strict=False):
        at = DEBUG_NAMES.get(option.lower())
        if at is None or value is None:
            raise ProtocolError(f"ERR Unknown option or number of arguments for SENTINEL DEBUG '{option}'")
        number = whole_number(value)
        if number is None or number <= 0:
            raise ProtocolError(f"ERR Invalid argument '{value}' for SENTINEL DEBUG '{option}'")
        setattr(periods, at, number)
    return "OK"
