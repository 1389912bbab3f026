# The unsealed way: one process that checks the fixtures' digests and runs one
# property over them with the code in its own process. It stands for what a
# replay without isolation costs.
import hashlib
import importlib.util
import json
import sys
from datetime import datetime, timezone
from pathlib import Path

root, name = Path(sys.argv[1]), sys.argv[2]
digests = json.loads((root / "digests.json").read_text())
bodies = {}
rows = []
for ident, want in digests.items():
    body = (root / "fixtures" / (ident + ".bin")).read_bytes()
    rows.append({"id": ident, "match": hashlib.sha256(body).hexdigest() == want})
    bodies[ident] = body
spec = importlib.util.spec_from_file_location(name, root / "properties" / (name + ".py"))
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
failed = [ident for ident, body in bodies.items() if not module.holds(body)]
packet = {"fixtures": rows, "properties": [{"id": name, "failed": failed}], "at": datetime.now(timezone.utc).isoformat()}
print(json.dumps(packet))
sys.exit(0 if not failed and all(r["match"] for r in rows) else 2)
