"""Builds a pushed tree in the sandbox of a candidate.

    build.py TREE N OUTPUT... [N WORD...]...

copies the tree to where temporary files go, runs the commands in the copy, one
after the other, and writes the output directories as a tar archive to descriptor 3.
Whatever it says may have been said by the pushed code that it runs.
"""

import os
import shutil
import signal
import stat
import subprocess
import sys
import tarfile

FAILED = 91  # the pushed code's own fault; standard error says what is shown
NOT_BEGUN = 92  # nothing of the pushed code has run
SHOWN = 32 << 10  # bytes of output
EPOCH = 315532800  # of all files before the build; the first that zip can say


def cut(words):
    n = int(words[0])
    return words[1 : n + 1], words[n + 1 :]


def say(text):
    sys.stderr.buffer.write(text.encode("utf-8", "surrogateescape") + b"\n")


def copy(source, target):
    os.mkdir(target, 0o755)
    left = [""]
    made = []
    while left:
        directory = left.pop()
        made.append(directory)
        for entry in os.scandir(os.path.join(source, directory)):
            name = os.path.join(directory, entry.name)
            there = os.path.join(target, name)
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), there)
            elif entry.is_dir():
                os.mkdir(there, 0o755)
                left.append(name)
            else:
                shutil.copyfile(entry.path, there)
                os.chmod(there, 0o755 if entry.stat().st_mode & 0o111 else 0o644)
                os.utime(there, (EPOCH, EPOCH))
    for directory in made:
        os.utime(os.path.join(target, directory), (EPOCH, EPOCH))


def run(command, number, of, build, log):
    what = "command %d of %d (%s)" % (number, of, " ".join(command))
    try:
        status = subprocess.call(command, cwd=build, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    except (OSError, ValueError) as fault:
        return "%s could not be started: %s" % (what, fault)
    if status in (-signal.SIGKILL, 128 + signal.SIGKILL):
        # By whom, nothing tells, nor which process of a shell's: all of this ends.
        os.kill(os.getpid(), signal.SIGKILL)
    if status < 0:
        return "%s was ended by signal %d" % (what, -status)
    if status > 0:
        return "%s ended with status %d" % (what, status)
    return ""


def last(log):
    size = log.seek(0, os.SEEK_END)
    log.seek(max(0, size - SHOWN))
    return log.read(SHOWN).decode("utf-8", "replace")


def member(path, name):
    """An entry, and the open file where it is one."""
    info = tarfile.TarInfo(name)
    info.mode = 0o644
    at = os.lstat(path)
    if stat.S_ISDIR(at.st_mode):
        info.type, info.mode = tarfile.DIRTYPE, 0o755
    elif stat.S_ISLNK(at.st_mode):
        info.type, info.linkname = tarfile.SYMTYPE, os.readlink(path)
    elif stat.S_ISREG(at.st_mode):
        content = os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")
        at = os.fstat(content.fileno())
        info.size = at.st_size
        if at.st_mode & 0o111:
            info.mode = 0o755
        return info, content
    else:
        info.type = tarfile.FIFOTYPE
    return info, None


def pack(build, outputs, stream):
    with tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        left = list(reversed(outputs))
        while left:
            name = left.pop()
            path = os.path.join(build, name)
            info, content = member(path, name)
            if content is not None:
                with content:
                    archive.addfile(info, content)
                continue
            archive.addfile(info)
            if info.isdir():
                names = sorted(os.listdir(path), reverse=True)
                left.extend(name + "/" + below for below in names)


def main(words):
    tree, (outputs, words) = words[0], cut(words[1:])
    commands = []
    while words:
        command, words = cut(words)
        commands.append(command)
    build = os.path.join(os.environ["TMPDIR"], "build")
    try:
        copy(tree, build)
        log = open(build + ".log", "ab+")
    except OSError as fault:
        say("copy the tree: %s" % fault)
        return NOT_BEGUN
    for number, command in enumerate(commands, 1):
        fault = run(command, number, len(commands), build, log)
        if fault:
            say(last(log).rstrip("\n"))
            say(fault)
            return FAILED
    for name in outputs:
        path = os.path.join(build, name)
        if os.path.islink(path) or not os.path.isdir(path):
            say(last(log).rstrip("\n"))
            say("%s is no directory when the commands have ended" % name)
            return FAILED
    try:
        with os.fdopen(3, "wb") as stream:
            pack(build, outputs, stream)
    except (OSError, tarfile.TarError) as fault:
        say("read what the commands have made: %s" % fault)
        return FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
