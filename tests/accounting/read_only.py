"""Release as a user who may read a ledger but not write to it. Run by test_ledger_hostile.

python read_only.py FILE
"""

import os
import sys
from pathlib import Path

import pandas as pd

import dfprivacy as dfp

if __name__ == "__main__":
    file = Path(sys.argv[1])
    frame = pd.DataFrame({"x": range(10)})
    frame.dp.count(epsilon=1)  # whatever is loaded late is loaded by the owner
    dfp.Ledger(file, epsilon=1)
    owner = sys.argv[2]
    file.chmod(0o444)
    if os.geteuid() == 0:
        os.setegid(int(owner))
        os.seteuid(int(owner))
    ledger = dfp.Ledger(file)
    print(ledger.remaining("d"))
    os.urandom = lambda size: sys.exit("drawn")
    try:
        frame.dp(ledger=ledger, dataset="d").count(epsilon=0.1)
    except dfp.errors.LedgerFileError as error:
        print(error.message)
    print(ledger.remaining("d"))
