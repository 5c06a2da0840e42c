"""Show releases and ledgers as text, HTML, charts and pages, from public facts alone."""
