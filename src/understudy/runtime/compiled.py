"""Kernels: functions that Numba compiles when they are first called, and keeps for the next time.

Until a kernel is called not even Numba is imported, so that ``--help`` and ``plan`` are quick and
need no place to write. What was compiled is kept in the first of these folders that will do:

    NUMBA_CACHE_DIR            if the user has set it
    __pycache__                beside the source, if it can be written
    the user's cache folder    if it is private to the user
    the temporary folder       in a folder that is private to the user

and nowhere if there is none. Numba's files are pickles, and to read one is to run what its writer
put there: a folder that anybody else can write to, or could have made first, is never used.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import stat
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType
from typing import Any, cast

# how many functions have been compiled, and whether one is being compiled now
Listening = Callable[[int, bool], None]
OURS = "understudy"  # begins the names of our modules, and is that of our folders
_making = threading.RLock()
_listeners: list[Listening] = []


def kernel(
    *, borrows: bool = False, inner: bool = False, **options: Any
) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function with Numba when it is first called.

    Args:
        borrows: the kernel makes no array: the caller holds them all, and counting references to
            them would take most of the time.
        inner: only other kernels call it, so it needs no way in from Python, which takes long to
            compile.
        options: of ``numba.njit``.
    """
    options = {"nogil": True, "no_cfunc_wrapper": True, **options}
    if borrows:
        options["_nrt"] = False
    if inner:
        options["no_cpython_wrapper"] = True
    return lambda function: functools.update_wrapper(
        _Kernel(cast(FunctionType, function), options), function
    )


@contextlib.contextmanager
def telling(who: Listening) -> Iterator[None]:
    """Tell somebody, while the context lasts, whenever something is compiled, not loaded."""
    _listeners.append(who)
    try:
        yield
    finally:
        _listeners.remove(who)


class _Kernel:
    def __init__(self, function: FunctionType, options: dict[str, Any]) -> None:
        self._function, self._options = function, options
        self._dispatcher: Callable[..., Any] | None = None

    def __call__(self, *args: Any) -> Any:
        if "no_cpython_wrapper" in self._options:  # to go on would end the process
            raise TypeError(
                f"{self._function.__name__} is an inner kernel, which only kernels may call."
            )
        return (self._dispatcher or self.dispatcher())(*args)

    def dispatcher(self) -> Callable[..., Any]:
        """What Numba calls, made once."""
        with _making:  # two chains of rows call the same kernel at the same time
            if self._dispatcher is None:
                self._dispatcher = _jit(self._with_dispatchers(), self._options)
        return self._dispatcher

    def _with_dispatchers(self) -> FunctionType:
        """The function with the kernels that it calls in the form that Numba knows."""
        function = self._function
        named = {name: function.__globals__.get(name) for name in function.__code__.co_names}
        dispatchers = {
            name: value.dispatcher() for name, value in named.items() if isinstance(value, _Kernel)
        }
        if not dispatchers:
            return function
        copy = FunctionType(
            function.__code__,
            {**function.__globals__, **dispatchers},
            function.__name__,
            function.__defaults__,
        )
        return cast(FunctionType, functools.update_wrapper(copy, function))


def _jit(function: FunctionType, options: dict[str, Any]) -> Callable[..., Any]:
    import numba

    _listen()
    config = numba.config
    if config.DISABLE_JIT:
        return function
    chosen = bool(config.CACHE_DIR or config.CACHE_LOCATOR_CLASSES)
    beside = chosen or _can_be_written(Path(inspect.getfile(function)).parent / "__pycache__")
    folder = None if beside else _private_folder()
    dispatcher = numba.njit(**options)(function)
    if beside or folder is not None:
        before = config.CACHE_DIR
        try:
            config.CACHE_DIR = str(folder or before)
            dispatcher.enable_caching()
            dispatcher._cache = _Forgiving(dispatcher._cache)
        except RuntimeError:  # the user's own choice will not do
            pass
        finally:
            config.CACHE_DIR = before
    return cast(Callable[..., Any], dispatcher)


class _Forgiving:
    """What Numba keeps, except that a full disk or a damaged file means to compile, not to stop in
    the middle of a release.
    """

    def __init__(self, cache: Any) -> None:
        self._cache = cache
        self.cache_path, self.flush = cache.cache_path, cache.flush

    def load_overload(self, *args: Any) -> Any:
        with contextlib.suppress(Exception):
            return self._cache.load_overload(*args)
        with contextlib.suppress(Exception):
            self.flush()  # or it would be damaged the next time, too
        return None

    def save_overload(self, *args: Any) -> None:
        with contextlib.suppress(Exception):
            self._cache.save_overload(*args)


# ---------------------------------------------------------------------- telling


@functools.cache
def _listen() -> None:
    from numba.core import event

    class Listener(event.Listener):  # type: ignore[misc]
        count = depth = 0  # compiling is done by one thread at a time

        def on_start(self, event: Any) -> None:
            if self.depth or event.data["dispatcher"].py_func.__module__.startswith(OURS):
                self.depth += 1
                self.tell()

        def on_end(self, event: Any) -> None:
            if self.depth:
                self.depth, self.count = self.depth - 1, self.count + 1
                self.tell()

        def tell(self) -> None:
            for who in tuple(_listeners):
                who(self.count, self.depth > 0)

    event.register("numba:compile", Listener())


# ---------------------------------------------------------------------- where to keep what was compiled


@functools.cache
def _can_be_written(folder: Path) -> bool:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


@functools.cache
def _private_folder() -> Path | None:
    """The user's cache folder, or a temporary one, if nobody else can have written there."""
    return next(
        (folder for folder in _places() if _can_be_written(folder) and is_private(folder)), None
    )


def _places() -> Iterator[Path]:
    if sys.platform == "win32":
        homes = [os.environ.get("LOCALAPPDATA", "")]
    elif sys.platform == "darwin":
        homes = [os.path.expanduser("~/Library/Caches")]
    else:
        homes = [os.environ.get("XDG_CACHE_HOME", ""), os.path.expanduser("~/.cache")]
    yield from (Path(home) / OURS / "kernels" for home in homes if os.path.isabs(home))
    with contextlib.suppress(OSError):
        temporary = tempfile.gettempdir()
        # which is what it comes to where no temporary folder can be written
        if temporary != os.getcwd():
            yield Path(temporary) / f"{OURS}-{os.getuid() if sys.platform != 'win32' else 'user'}"


def is_private(folder: Path) -> bool:
    """Whether a folder is ours alone, and nobody but us and root can put another one in its place."""
    # both places lie in the user's profile, which others cannot write to
    if sys.platform == "win32":
        return True
    try:
        own = folder.lstat()
        above = [parent.stat() for parent in folder.resolve().parents]
    except OSError:
        return False
    mine = stat.S_ISDIR(own.st_mode) and own.st_uid == os.geteuid() and not own.st_mode & 0o077
    return mine and all(_holds_still(each) for each in above)


def _holds_still(parent: os.stat_result) -> bool:
    """Whether others cannot rename what lies in a folder: it is ours or root's, and not everybody's
    unless sticky.
    """
    everybody = parent.st_mode & stat.S_IWOTH and not parent.st_mode & stat.S_ISVTX
    return parent.st_uid in (0, os.geteuid()) and not everybody
