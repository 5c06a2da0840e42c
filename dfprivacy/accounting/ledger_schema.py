"""The tables of a ledger's file. They hold the rules that no program may break, ours included.

What is spent never exceeds the total, only grows, and is the sum of charges that stay as they are.
A release is kept only if its ledger remembers releases and its dataset has been charged; it never
changes, but it may be forgotten.
"""

from __future__ import annotations

from dfprivacy.accounting.charge import MOST_UNITS, PER_ONE_DELTA

APPLICATION_ID = 0x64667072  # "dfpr"
SCHEMA_VERSION = 2

SCHEMA = f"""CREATE TABLE budget (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    ledger TEXT NOT NULL,
    measure TEXT NOT NULL CHECK (measure IN ('epsilon', 'rho')),
    total INTEGER NOT NULL CHECK (typeof(total) = 'integer' AND total BETWEEN 1 AND {MOST_UNITS}),
    total_delta INTEGER NOT NULL
        CHECK (typeof(total_delta) = 'integer' AND total_delta BETWEEN 0 AND {PER_ONE_DELTA}),
    remember INTEGER NOT NULL CHECK (remember IN (0, 1))
);
CREATE TABLE account (
    dataset TEXT PRIMARY KEY NOT NULL,
    total INTEGER NOT NULL,
    total_delta INTEGER NOT NULL,
    spent INTEGER NOT NULL DEFAULT 0,
    spent_delta INTEGER NOT NULL DEFAULT 0,
    CHECK (typeof(spent) = 'integer' AND spent BETWEEN 0 AND total),
    CHECK (typeof(spent_delta) = 'integer' AND spent_delta BETWEEN 0 AND total_delta)
) WITHOUT ROWID;
CREATE TABLE charge (
    number INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL UNIQUE,
    time TEXT NOT NULL,
    dataset TEXT NOT NULL REFERENCES account (dataset),
    question TEXT NOT NULL,
    asked TEXT NOT NULL CHECK (asked IN ('epsilon', 'rho')),
    amount TEXT NOT NULL,
    cost INTEGER NOT NULL CHECK (typeof(cost) = 'integer' AND cost >= 1),
    cost_delta INTEGER NOT NULL CHECK (typeof(cost_delta) = 'integer' AND cost_delta >= 0),
    note TEXT,
    version TEXT NOT NULL
);
CREATE TABLE release (
    number INTEGER PRIMARY KEY,
    fingerprint BLOB NOT NULL UNIQUE
        CHECK (typeof(fingerprint) = 'blob' AND length(fingerprint) = 32),
    time TEXT NOT NULL,
    dataset TEXT NOT NULL REFERENCES account (dataset),
    digest BLOB NOT NULL CHECK (typeof(digest) = 'blob' AND length(digest) = 32),
    content BLOB NOT NULL CHECK (typeof(content) = 'blob')
);
CREATE TRIGGER remember BEFORE INSERT ON release WHEN (SELECT remember FROM budget) = 0 BEGIN
    SELECT RAISE(ABORT, 'this ledger remembers no releases');
END;
CREATE TRIGGER keep_release BEFORE UPDATE ON release BEGIN
    SELECT RAISE(ABORT, 'a release is never changed');
END;
CREATE TRIGGER spend AFTER INSERT ON charge BEGIN
    UPDATE account
    SET spent = spent + NEW.cost, spent_delta = spent_delta + NEW.cost_delta
    WHERE dataset = NEW.dataset;
END;
CREATE TRIGGER keep_charge BEFORE UPDATE ON charge BEGIN
    SELECT RAISE(ABORT, 'a charge is never changed');
END;
CREATE TRIGGER keep_history BEFORE DELETE ON charge BEGIN
    SELECT RAISE(ABORT, 'a charge is never taken back');
END;
CREATE TRIGGER only_more BEFORE UPDATE ON account
WHEN NEW.spent < OLD.spent OR NEW.spent_delta < OLD.spent_delta
    OR NEW.total <> OLD.total OR NEW.total_delta <> OLD.total_delta BEGIN
    SELECT RAISE(ABORT, 'what is spent only grows');
END;
CREATE TRIGGER keep_account BEFORE DELETE ON account BEGIN
    SELECT RAISE(ABORT, 'an account is never deleted');
END;
CREATE TRIGGER keep_budget BEFORE UPDATE ON budget BEGIN
    SELECT RAISE(ABORT, 'a budget is never changed');
END;
CREATE TRIGGER stay_budget BEFORE DELETE ON budget BEGIN
    SELECT RAISE(ABORT, 'a budget is never deleted');
END;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
"""  # noqa: S608 the braces hold our own integers
