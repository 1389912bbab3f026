# What ordinary properties say in plain Python: property and code in one process, a
# process a module. DIR/NAME/{good,bug} are trees, beside property.py, helpers/ and fixture.
# Prints {"NAME": ["True", "False"]}: what holds returned on the tree and on the bug, or
# the exception.
import asyncio
import inspect
import json
import os
import sys


def holds(case, tree):
    sys.path[:0] = [case + "/helpers", tree]
    os.chdir(tree)
    sys.stdout = sys.stderr = open(os.devnull, "w")
    space = {"__name__": "the_property"}
    with open(case + "/property.py") as f:
        exec(compile(f.read(), case + "/property.py", "exec"), space)
    with open(case + "/fixture", "rb") as f:
        out = space["holds"](f.read())
    return asyncio.run(out) if inspect.iscoroutine(out) else out


def apart(case, tree):
    inlet, outlet = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            said = repr(holds(case, tree))
        except BaseException as e:
            said = "%s: %s" % (type(e).__name__, e)
        os.write(outlet, said.encode()[:500])
        os._exit(0)
    os.close(outlet)
    with open(inlet) as f:
        said = f.read()
    os.waitpid(pid, 0)
    return said


root = sys.argv[1]
out = {}
for name in sorted(os.listdir(root)):
    out[name] = [apart("%s/%s" % (root, name), "%s/%s/%s" % (root, name, tree)) for tree in ("good", "bug")]
print(json.dumps(out))
