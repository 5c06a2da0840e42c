"""Charges for the tests of ledgers, and logs as their text says they are written."""

import hashlib
import json
from fractions import Fraction
from pathlib import Path

from dfprivacy.accounting.charge import Charge
from dfprivacy.accounting.loss import read_delta, read_loss


def charge(epsilon=None, rho=None, delta=None):
    """Return the charge of a release."""
    return Charge(read_loss(epsilon, rho), read_delta(delta) or Fraction(0), "count()")


def forge(path, *entries, content=b""):
    """Add a transaction to a log whose last one has no content, with the right running hash."""
    before = path.read_bytes().splitlines()[-1].split()[0]
    body = json.dumps(entries).encode()
    with path.open("ab") as file:
        digest = hashlib.sha256(before + body).hexdigest().encode()
        file.write(b"%s %d %s\n" % (digest, len(content), body) + content)


def in_old_units(path):
    """Write a ledger that has no charge yet as schema 3 has it, in units of 1e-9 and 1e-18."""
    line = path.read_bytes().splitlines()[1].split(b" ", 2)[2]
    ((kind, fields),) = json.loads(line)
    fields |= {"total": fields["total"] // 10**15, "total_delta": fields["total_delta"] // 10**18}
    body = json.dumps([[kind, fields]]).encode()
    digest = hashlib.sha256(body).hexdigest().encode()
    old = path.with_name("old.db")
    old.write_bytes(b"dfprivacy ledger 3\n%s 0 %s\n" % (digest, body))
    return old


def list_confirmed(path):
    """Return the charges in a log that remembers nothing, up to its newest confirmed hash."""
    head = Path(f"{path}-head")
    slots = head.read_bytes().split(b"\n") if head.exists() else []
    newest = max((slot.strip(b".").split() for slot in slots[:2]), key=lambda parts: int(parts[1]))
    rows = []
    for line in path.read_bytes().splitlines()[1:]:
        digest, _, body = line.split(b" ", 2)
        rows += [fields for kind, fields in json.loads(body) if kind == "charge"]
        if digest == newest[2]:
            return rows
    raise AssertionError("the newest hash is not in the log")
