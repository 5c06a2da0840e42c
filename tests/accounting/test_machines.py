"""Whatever ledgers, blocks, threads and processes do in any order, each release is charged once."""

import os
import threading
from contextvars import copy_context

import hypothesis.strategies as st
import pandas as pd
import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

import dfprivacy as dfp
from dfprivacy.accounting.spending import NoAccount
from tests.accounting.charges import charge

FRAME = pd.DataFrame({"x": range(10)})
FEW = settings(max_examples=6, stateful_step_count=20, deadline=None, phases=[Phase.generate])
MANY = settings(max_examples=60, stateful_step_count=50, deadline=None, phases=[Phase.generate])
names = st.sampled_from(["a", "b", "c"])
LEAST = 1e-6


class Blocks(RuleBasedStateMachine):
    """Blocks that begin and end in any order, here and in contexts that were begun inside."""

    blocks = Bundle("blocks")
    contexts = Bundle("contexts")

    @initialize(required=st.booleans())
    def start(self, required):
        self.folder = self.factory.mktemp("blocks")
        self.ledger = dfp.Ledger(self.folder / "b.db", epsilon=1)
        self.begun, self.expected, self.free = [], dict.fromkeys("abc", 0), 0
        NoAccount.required = required

    def teardown(self):
        NoAccount.required = False
        for _, block in self.begun:
            if not block.closed:
                block.__exit__(None, None, None)

    def innermost(self, begun):
        """Return the dataset of the innermost block that is open, None where none is."""
        still = [name for name, block in begun if not block.closed]
        return still[-1] if still else None

    def released(self, expected, ask):
        if expected == "ended":
            with pytest.raises(dfp.errors.InvalidLedgerError, match="has ended"):
                ask()
        elif expected is None and NoAccount.required:
            with pytest.raises(dfp.MissingLedgerError):
                ask()
        else:
            ask()
            if expected is not None:
                self.expected[expected] += 1

    def ask(self):
        FRAME.dp.count(epsilon=LEAST)

    @rule(target=blocks, name=names)
    def begin(self, name):
        block = dfp.spending(self.ledger, dataset=name)
        block.__enter__()
        self.begun.append((name, block))
        return block

    @rule(block=consumes(blocks))
    def end(self, block):
        block.__exit__(None, None, None)

    @rule(target=contexts)
    def branch(self):
        """Begin work that goes on by itself, as a task or a thread would."""
        open_blocks = [(name, block) for name, block in self.begun if not block.closed]
        return copy_context(), open_blocks

    @rule()
    def release(self):
        self.released(self.innermost(self.begun), self.ask)

    @rule(branch=contexts)
    def release_in_a_branch(self, branch):
        """Where the innermost block that it was begun in has ended, nothing comes out."""
        context, blocks = branch
        expected = None
        if blocks:
            name, block = blocks[-1]
            expected = "ended" if block.closed else name
        self.released(expected, lambda: context.run(self.ask))

    @rule()
    def release_in_a_thread(self):
        """Release in a thread, which knows of no block."""
        errors = []

        def work():
            try:
                self.ask()
            except dfp.MissingLedgerError as error:
                errors.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert bool(errors) == NoAccount.required

    @rule(name=names)
    def decorated(self, name):
        dfp.spending(self.ledger, dataset=name)(self.ask)()
        self.expected[name] += 1

    @rule(name=names)
    def named(self, name):
        FRAME.dp(ledger=self.ledger, dataset=name).count(epsilon=LEAST)
        self.expected[name] += 1

    @invariant()
    def charged(self):
        if hasattr(self, "ledger"):
            counts = self.ledger.history()["dataset"].value_counts().to_dict()
            assert counts == {name: count for name, count in self.expected.items() if count}


class Ledgers(RuleBasedStateMachine):
    """Objects, threads and processes on one ledger, and copies put in its place."""

    ledgers = Bundle("ledgers")
    copies = Bundle("copies")

    @initialize(target=ledgers)
    def make(self):
        self.path = self.factory.mktemp("ledgers") / "b.db"
        self.charges, self.lacking = [], 0
        return dfp.Ledger(self.path, epsilon=1, delta=1e-6)

    @rule(target=ledgers)
    def open(self):
        return multiple() if self.lacking else dfp.Ledger(self.path)

    def try_charge(self, ledger, name, units):
        """Charge, and check against the model; tell whether it was charged."""
        fits = sum(amount for other, amount in self.charges if other == name) + units <= 10**9
        error = dfp.errors.LedgerFileError if self.lacking else dfp.BudgetExceededError
        if self.lacking or not fits:
            with pytest.raises(error):
                ledger.charge(name, charge(units / 10**9))
        else:
            ledger.charge(name, charge(units / 10**9))
            self.charges.append((name, units))

    amounts = st.integers(1, 10**9)

    @rule(ledger=ledgers, name=names, units=amounts)
    def charge(self, ledger, name, units):
        self.try_charge(ledger, name, units)

    @rule(ledger=ledgers, name=names, units=amounts)
    def charge_in_a_thread(self, ledger, name, units):
        thread = threading.Thread(target=self.try_charge, args=(ledger, name, units))
        thread.start()
        thread.join()

    @rule(ledger=ledgers, name=names, units=amounts)
    def charge_in_a_child(self, ledger, name, units):
        """Charge in a child: what it is granted counts here, what it is refused does not."""
        child = os.fork()
        if child == 0:
            status = 1
            try:
                ledger.charge(name, charge(units / 10**9))
                status = 0
            except dfp.DPError:
                status = 2
            finally:
                os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        fits = sum(amount for other, amount in self.charges if other == name) + units <= 10**9
        assert status == (0 if fits and not self.lacking else 2)
        if status == 0:
            self.charges.append((name, units))

    @rule(target=copies)
    def copy(self):
        return self.path.read_bytes(), self.lacking, len(self.charges)

    @rule(copy=copies)
    def restore(self, copy):
        """Put a copy in the ledger's place; it is refused unless it has all charges."""
        content, lacking, charges = copy
        self.path.write_bytes(content)
        self.lacking = lacking + len(self.charges) - charges

    @rule(junk=st.binary(min_size=1, max_size=200))
    def crash(self, junk):
        """Leave at the end what a process that was killed may leave, which is no charge."""
        if self.path.with_name("b.db-head").exists():
            with self.path.open("ab") as file:
                file.write(junk)

    @invariant()
    def spent(self):
        if not hasattr(self, "path"):
            return
        if self.lacking:
            with pytest.raises(dfp.errors.LedgerFileError):
                dfp.Ledger(self.path)
            return
        ledger = dfp.Ledger(self.path)
        for name in "abc":
            units = sum(amount for other, amount in self.charges if other == name)
            assert round(ledger.spent(name).epsilon * 10**9) == units
        assert ledger.history()["dataset"].tolist() == [name for name, _ in self.charges]


@pytest.mark.parametrize("amount", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])
@pytest.mark.parametrize("machine", [Blocks, Ledgers])
@pytest.mark.usefixtures("fast_disk")
def test_any_order(machine, amount, tmp_path_factory):
    """Every step leaves the ledger as a model of it says."""
    run_state_machine_as_test(
        type(machine.__name__, (machine,), {"factory": tmp_path_factory}), settings=amount
    )
