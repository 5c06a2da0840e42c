"""Run examples/flights.sql, statement by statement, on flights that are made up.

Run it with `python examples/duckdb_shell.py`.
"""

from pathlib import Path

import duckdb

import sql_udfs

SCRIPT = Path(__file__).with_name("flights.sql")

MADE_UP = """
CREATE TABLE flights AS
SELECT
    CASE WHEN i % 50000 = 7 THEN 'ZZ' ELSE ['AA', 'B6', 'DL', 'UA'][1 + i % 4] END AS carrier,
    1 + i % 12 AS month,
    CASE WHEN random() > 0.02 THEN 5 * (i % 4) - 10 - 20 * ln(1 - random()) END AS delay,
    80 + i % 200 AS seats
FROM range(100000) AS numbers(i)
"""


def show(connection: duckdb.DuckDBPyConnection, statement: duckdb.Statement) -> None:
    """Print a statement and what it returns."""
    lines = statement.query.strip().splitlines()
    print("\n".join(line for line in lines if not line.startswith("--")).strip(), end="\n\n")
    result = connection.execute(statement)
    if statement.type == duckdb.StatementType.SELECT:
        print("  " + "  ".join(f"{column[0]:>10}" for column in result.description))
        for row in result.fetchall():
            print("  " + "  ".join(f"{_text(value):>10}" for value in row))
        print()


def _text(value: object) -> str:
    return f"{value:,.3f}" if isinstance(value, float) else str(value)


def main() -> None:
    """Make up the flights, register the functions, run the script."""
    with duckdb.connect() as connection:
        connection.execute(MADE_UP)
        sql_udfs.register(connection, epsilon=0.5)
        for statement in connection.extract_statements(SCRIPT.read_text()):
            show(connection, statement)


if __name__ == "__main__":
    main()
