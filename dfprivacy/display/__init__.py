"""How releases and ledgers look: HTML, charts and pages, made from facts that are public."""
