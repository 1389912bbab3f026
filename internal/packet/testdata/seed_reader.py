"""Reads a merge packet as a program would that knows the published field list only.

Fields: schema, manifest_sha256, fixtures (id, hit, digest_match, sha256),
properties (id, ran, failed_fixtures, ok), freezes (test_id, has_owner, expired,
parent_sha_present), merge_ok. Prints one JSON line; exits 2 where merge_ok is
false, 1 where the packet is not what the field list says.
"""
import json
import sys

ROWS = {
    "fixtures": {"id": str, "hit": bool, "digest_match": bool, "sha256": str},
    "properties": {"id": str, "ran": bool, "failed_fixtures": list, "ok": bool},
    "freezes": {"test_id": str, "has_owner": bool, "expired": bool, "parent_sha_present": bool},
}


def typed(value, want, where):
    if type(value) is not want:
        sys.exit(f"{where} is {type(value).__name__}, not {want.__name__}")


packet = json.load(sys.stdin)
if packet["schema"] != "merge-packet-v1":
    sys.exit("another schema")
typed(packet["manifest_sha256"], str, "manifest_sha256")
typed(packet["merge_ok"], bool, "merge_ok")
for lane, fields in ROWS.items():
    typed(packet[lane], list, lane)
    for row in packet[lane]:
        for name, want in fields.items():
            typed(row[name], want, f"{lane}.{name}")
for row in packet["properties"]:
    for fixture in row["failed_fixtures"]:
        typed(fixture, str, "failed_fixtures[]")

fixtures = all(r["hit"] and r["digest_match"] for r in packet["fixtures"])
properties = all(r["ok"] and r["ran"] and not r["failed_fixtures"] for r in packet["properties"])
freezes = all(r["has_owner"] and r["parent_sha_present"] and not r["expired"] for r in packet["freezes"])
formula = fixtures and properties and freezes
if packet["merge_ok"] and not formula:
    sys.exit("merge_ok against its own rows")
print(json.dumps({
    "merge_ok": packet["merge_ok"],
    "formula": formula,
    "failed": [[r["id"], r["failed_fixtures"]] for r in packet["properties"] if not r["ok"]],
}))
sys.exit(0 if packet["merge_ok"] else 2)
