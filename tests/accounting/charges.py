"""Charges for the tests of ledgers."""

from fractions import Fraction

from dfprivacy.accounting.charge import Charge
from dfprivacy.accounting.loss import delta_of, loss_of


def charge(epsilon=None, rho=None, delta=None):
    return Charge(loss_of(epsilon, rho), delta_of(delta) or Fraction(0), "count()")
