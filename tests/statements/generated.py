"""Statements over the tables of a shop, made by chance from a seed: joins, nesting, windows."""

from random import Random

COLUMNS = {
    "customer": {"id": "k", "nation": "n", "balance": "x"},
    "orders": {"order_id": "o", "customer": "k", "total": "x", "status": "s"},
    "item": {"order_id": "o", "product": "n", "quantity": "n", "paid": "x"},
    "nation": {"nation": "n", "region": "n"},
    "product": {"product": "n", "price": "x"},
}
"""Columns by what they are: k the unit, o an order, n and x numbers, s text."""
PROTECTED = ("customer", "orders", "item")


class StatementMaker:
    """One statement: aliases are used once, so that every column is named plainly."""

    def __init__(self, seed):
        self.random, self.count = Random(seed), 0

    def alias(self):
        self.count += 1
        return f"t{self.count}"

    def table(self, names=PROTECTED):
        name, alias = self.random.choice(names), self.alias()
        return f"{name} AS {alias}", {f"{alias}.{c}": k for c, k in COLUMNS[name].items()}

    def relation(self, depth):
        """Return a protected relation in FROM, and its columns."""
        if depth == 0 or self.random.random() < 0.3:
            return self.table()
        query, columns = self.query(depth - 1)
        alias = self.alias()
        return f"({query}) AS {alias}", {f"{alias}.{c}": k for c, k in columns.items()}

    def number(self, columns):
        numbers = [c for c, k in columns.items() if k in "nx"]
        if not numbers:
            return "1"
        first, second = self.random.choice(numbers), self.random.choice(numbers)
        return self.random.choice(
            [first, f"({first} + {second})", f"coalesce({first}, 3)",
             f"CASE WHEN {first} > {second} THEN 1 ELSE 2 END",
             f"abs({first} - 4)"]
        )  # fmt: skip

    def condition(self, columns, depth):
        random = self.random
        chance = random.random()
        keys = [c for c, k in columns.items() if k == "k"]
        if depth and keys and chance < 0.45:
            name, alias = random.choice(("customer", "orders")), self.alias()
            key = "id" if name == "customer" else "customer"
            inner = {f"{alias}.{c}": k for c, k in COLUMNS[name].items()}
            mine = random.choice(keys)
            where = f"{alias}.{key} = {mine} AND {self.condition({**inner, **columns}, 0)}"
            if chance < 0.2:
                sign = random.choice(("", "NOT "))
                return f"{sign}EXISTS (SELECT 1 FROM {name} {alias} WHERE {where})"
            if chance < 0.3:
                local = self.condition(inner, 0)
                return (f"{mine} {random.choice(('', 'NOT '))}IN (SELECT {alias}.{key} FROM "
                        f"{name} {alias} WHERE {local})")  # fmt: skip
            local = self.condition(inner, 0)
            what = random.choice(
                ("count(*)", f"max({self.number(inner)})", f"sum({self.number(inner)})")
            )
            return (f"{self.number(columns)} > (SELECT {what} FROM {name} {alias} WHERE "
                    f"{alias}.{key} = {mine} AND {local})")  # fmt: skip
        if depth and chance < 0.6:
            return f"({self.condition(columns, depth - 1)} OR {self.condition(columns, 0)})"
        sign = random.choice(("<", ">", "<=", "<>", "IS DISTINCT FROM"))
        return f"{self.number(columns)} {sign} {random.choice((1, 2, 3, self.number(columns)))}"

    def join_tables(self, depth):
        """Return a FROM and its columns."""
        text, columns = self.relation(depth)
        for _ in range(self.random.choice((0, 1, 1, 2))):
            if self.random.random() < 0.4:
                other, more = self.table(("nation", "product"))
                mine = [c for c, k in columns.items() if k == "n"]
                key = next(iter(more))
                if not mine:
                    continue
                on = f"{self.random.choice(mine)} = {key}"
            else:
                other, more = self.relation(depth)
                pairs = [
                    (a, b)
                    for a, k in columns.items()
                    for b, j in more.items()
                    if k == j and k in "ko"
                ]
                if not pairs:
                    continue
                on = " = ".join(self.random.choice(pairs))
            both = {**columns, **more}
            how = self.random.choice(("JOIN", "JOIN", "LEFT JOIN", ","))
            if how == ",":
                text, columns = f"{text}, {other}", both
                self.waiting.append(on)
                continue
            extra = f" AND {self.condition(both, 0)}" if self.random.random() < 0.4 else ""
            if how == "LEFT JOIN":
                more = {c: k if k in "nxs" else "-" for c, k in more.items()}
                if self.waiting:
                    continue
            text, columns = f"{text} {how} {other} ON {on}{extra}", {**columns, **more}
        return text, columns

    def query(self, depth):
        """Return a subquery that keeps the unit or an order, and its columns."""
        outside, self.waiting = getattr(self, "waiting", []), []
        text, columns = self.join_tables(depth)
        where = [
            *self.waiting,
            *([self.condition(columns, depth)] if self.random.random() < 0.6 else []),
        ]
        self.waiting = outside
        keys = [c for c, k in columns.items() if k in "ko"]
        key = self.random.choice(keys)
        kind = columns[key]
        where = f" WHERE {' AND '.join(where)}" if where else ""
        way = self.random.choice(("plain", "group", "window", "distinct", "union"))
        output_columns = {"u": kind, "v": "x"}
        value = self.number(columns)
        if way == "group":
            what = self.random.choice(
                ("count(*)", f"sum({value})", f"max({value})", f"count(DISTINCT {value})",
                 f"avg({value})", f"min({value}) FILTER (WHERE {value} > 2)"))  # fmt: skip
            having = (
                f" HAVING {self.random.choice(('count(*) > 1', f'min({value}) < 4'))}"
                if self.random.random() < 0.4
                else ""
            )
            query = f"SELECT {key} AS u, {what} AS v FROM {text}{where} GROUP BY {key}{having}"
            return query, output_columns
        if way == "window":
            over = f"(PARTITION BY {key} ORDER BY {value})"
            what = self.random.choice((
                f"rank() OVER {over}", f"dense_rank() OVER {over}", f"count(*) OVER {over}",
                f"max({value}) OVER (PARTITION BY {key})"))  # fmt: skip
            query = f"SELECT {key} AS u, {value} AS v, {what} AS w FROM {text}{where}"
            return query, {**output_columns, "w": "x"}
        if way == "distinct":
            return f"SELECT DISTINCT {key} AS u, {value} AS v FROM {text}{where}", output_columns
        plain = f"SELECT {key} AS u, CAST({value} AS DOUBLE) AS v FROM {text}{where}"
        if way == "union":
            column = "customer" if kind == "k" else "order_id"
            return f"{plain} UNION ALL SELECT {column}, total FROM orders", output_columns
        return plain, output_columns


def statement(seed, depth=2):
    """Return a statement whose queries stand in each other so deep."""
    maker = StatementMaker(seed)
    query, columns = maker.query(depth)
    number = maker.number({f"q.{c}": k for c, k in columns.items()})
    return f"SELECT dp_sum({number}, 0, 9) AS s, dp_count(*) AS n FROM ({query}) AS q"
