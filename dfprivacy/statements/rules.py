"""Register refusals: what is refused, why, and what to write in its place.

Rules go by the kind of a syntax node of DuckDB's, a part of one, `name()` of a call, `@name` of a
column that DuckDB takes for a call, or by words of their own. docs/reference/refusals.md lists them
all.

A syntax node of DuckDB's that no rule knows is refused by its kind, a known one by the name of the
part that its rule does not know.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from dfprivacy.errors import RefusedStatementError


def refuse(rule: str, /, **words: object) -> RefusedStatementError:
    """Return the error of a rule of the registry, with words of the statement in it."""
    return REFUSALS[rule].error(**words)


def refuse_part(name: str) -> RefusedStatementError:
    """Return the error for a part of a syntax node, or for a kind of one, that no rule may know."""
    if name in REFUSALS:
        return refuse(name)
    return refuse("unlisted", part=name if " " in name else name.upper().replace("_", " "))


def words(text: str, separator: str | None = None) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split(separator))


def nearly(name: str, candidates: Collection[str], shown: Callable[[str], str] = repr) -> str:
    """Return the start of a hint: the name that was meant, if one is close to what was written."""
    close = get_close_matches(name.lower(), [candidate.lower() for candidate in candidates], 1, 0.6)
    similar = [candidate for candidate in candidates if candidate.lower() in close]
    return f"did you mean {shown(similar[0])}? " if similar else ""


def build_refusal(word: str) -> RefusedStatementError:
    """Return the error for a statement that is neither a query nor makes a table of one."""
    rules = {"DESCRIBE": "SUMMARIZE", "UNPIVOT": "PIVOT"}
    rule = rules.get(word.upper(), word.upper())
    return refuse(rule if rule in {"SUMMARIZE", "PIVOT"} else "no query", word=word.upper())


@dataclass(frozen=True)
class Refusal:
    """A construct in the caller's words, why it is refused, and what to write in its place."""

    construct: str
    why: str
    rewrite: str

    def error(self, **words: object) -> RefusedStatementError:
        """Return the error to raise, with words of the statement in its texts."""
        message = f"{self.construct}: {self.why}" if self.why else self.construct
        return RefusedStatementError(message.format(**words), hint=self.rewrite.format(**words))


_TEXT = """
%unknown = it is not on the list of what is known to be safe
%several = it looks at several rows, so that one person's row could change what all others add
%once = an answer counts each row once, and this can repeat, drop or combine rows of several people
%select = SELECT city, dp_mean(income, 0, 200000) FROM people GROUP BY city
%prepare = prepare a table first (CREATE TABLE prepared AS ...), then SELECT dp_count(*) FROM
    prepared
%with = WITH c AS (SELECT * FROM t WHERE x > 1) SELECT dp_count(*) FROM c
%join = join first (CREATE TABLE joined AS SELECT ...), then name who is protected: dfp.sql('SELECT
    dp_count(*) FROM joined', con=con, unit='user_id', max_rows=5)

no text = a query is a text with one SQL statement
    -> %select
no statement = there is no statement in the text
    -> %select
too long a text = the statement is longer than {most} characters
    -> ask for less at a time
NUL = a character NUL in the statement or in one of its constants: DuckDB's own text of it would end
    there
    -> replace it in a table first: CREATE TABLE prepared AS SELECT replace(code, chr(0), ' ') AS
    code FROM t
nested = the statement is nested too deeply
    -> split long chains of conditions and operators
unreadable = the statement can't be read at line {line}, column {column}{near}
    -> %select
the statement = the statement can't be read: names or clauses in it do not go together, as two CTEs
    of one name
    -> %select
several statements = several statements in one text: one of them could not be charged for
    -> call dfp.sql once for each, e.g. with SELECT city, dp_mean(income, 0, 200000) FROM people
    GROUP BY city
SUMMARIZE = {word} as a statement: it shows the least and the greatest values as they are
    -> dfp.frame(t).describe(rho=0.5, delta=1e-6) describes every column of a frame
no query = {word} as a statement: only SELECT and CREATE TABLE ... AS SELECT can be released
    -> SELECT dp_count(*) FROM t; dfp.explain(query) shows a plan
INSERT = INSERT: the keys, constraints and triggers of an existing table can tell who is in the
    protected one
    -> make a fresh table, CREATE TABLE released AS SELECT ..., and add its rows to others yourself:
    con.execute('INSERT INTO history FROM released')
CREATE = CREATE TABLE with column definitions: %unknown
    -> CREATE TABLE released AS SELECT ...
IF NOT EXISTS = IF NOT EXISTS: whether something is released should not depend on what is there
    -> CREATE OR REPLACE TABLE released AS SELECT dp_count(*) AS n FROM t
protected target = a table that the statement reads as the target: released rows would take the
    place of those that they were made of
    -> CREATE TABLE released AS SELECT ...
taken target = CREATE TABLE {name}: there is {one} of that name
    -> CREATE OR REPLACE TABLE {name} AS SELECT ..., or another name
foreign key = CREATE OR REPLACE TABLE {name}: another table refers to it by a foreign key
    -> CREATE TABLE released AS SELECT ...
no target = CREATE TABLE {name}: there is no such database or schema, or it can't be written to
    -> CREATE TABLE released AS SELECT ...
CREATE without con = CREATE TABLE without con=: there is no database to write to
    -> take the result: released = dfp.sql('SELECT dp_count(*) AS n FROM t', t=frame)
SHOW_REF = DESCRIBE, SHOW and SUMMARIZE: %several
    -> SELECT dp_count(*) FROM t
EMPTY = a SELECT without FROM: there is no one to protect
    -> SELECT dp_count(*) FROM t
no dp_ call = a statement without a dp_ call: it would show rows or keys as they are
    -> SELECT city, dp_count(*) FROM t GROUP BY city
VALUE_PARAMETER|named_param_map = a prepared parameter: a statement is planned with its constants in
    it
    -> write the value itself: dp_mean(x, 0, 100); or dfp.connect(...).execute(query, [value])
unlisted = {part}: no rule knows it, so that it could be unsafe
    -> write it with operators, CASE, CAST and plain functions
no such table = there is no table or view {name!r}
    -> {near}name a table or view of con, or pass a frame or a file by name: dfp.sql('SELECT
    dp_count(*) FROM t', t=frame)
file as a table = {name!r} as a table: a file is read by a name that it is passed by
    -> pass the file by a name, and no con: dfp.sql('SELECT dp_count(*) FROM t', t={name!r})
no frame = no frame was passed under the name {name!r}
    -> the frames are {known}; pass it: dfp.sql('SELECT dp_count(*) FROM t', t=frame)
a name with more than three parts = a name with more than three parts: a table has a database, a
    schema and a name
    -> SELECT dp_count(*) FROM memory.main.t
second table = {second!r} beside {first!r}: nothing says whose rows it holds
    -> say whose they are, by columns of yours: schema=dfp.Schema(unit='{first}.KEY',
    links={{'{second}.LINK': '{first}.KEY'}}); or that everybody may know them:
    dfp.Schema(rows='{first}', public=['{second}']), of frames {second}=dfp.public(frame)
TABLE_FUNCTION = a table function: what it reads is no relation whose rows are known
    -> pass what it reads by a name, and no con: dfp.sql('SELECT dp_count(*) FROM t', t={source})
unnest = UNNEST: it makes many rows out of one
    -> %join
EXPRESSION_LIST = VALUES: it holds no one's data
    -> SELECT dp_count(*) FROM t
PIVOT = PIVOT and UNPIVOT: %once
    -> pivot the answers: FROM (SELECT city, plan, count(*) AS n FROM t GROUP BY ALL) PIVOT (sum(n)
    FOR plan IN ('free', 'pro'))
SET_OPERATION_NODE:UNION = UNION: %once
    -> ask two questions; losses add up: dp_count(*) FROM a, then dp_count(*) FROM b
SET_OPERATION_NODE:EXCEPT = EXCEPT: %once
    -> filter row by row: SELECT dp_count(*) FROM t WHERE x <> 1
SET_OPERATION_NODE:INTERSECT = INTERSECT: %once
    -> filter row by row: SELECT dp_count(*) FROM t WHERE x = 1
RECURSIVE_CTE_NODE = WITH RECURSIVE: %once
    -> %with
column_name_alias = more new names in FROM or WITH than there are columns: each names one column
    -> FROM people AS v(age, city)
two columns in a subquery = two columns of one name in a subquery, CTE or view: it must be plain
    which is meant
    -> rename one of them: SELECT x, y AS other FROM t
sample = SAMPLE: which rows are left depends on all the others
    -> leave SAMPLE out; a smaller epsilon costs less: dp_mean(x, 0, 100, 0.1)
at_clause = AT (VERSION ...): %unknown
    -> %prepare
having = HAVING inside a subquery or CTE: %several
    -> SELECT city, dp_count(*) AS n FROM t GROUP BY city HAVING n > 100
DISTINCT_MODIFIER = DISTINCT: %several
    -> count by group: SELECT city, dp_count(*) FROM t GROUP BY city
LIMIT_MODIFIER = LIMIT inside a subquery or CTE: which rows are left depends on all the others
    -> filter by a number, WHERE x > 100 or HAVING sum(x) > 100; or put LIMIT at the end of the
    statement
OFFSET = OFFSET inside a subquery or CTE: which rows are left depends on all the others
    -> put OFFSET at the end of the statement
ORDER_MODIFIER = ORDER BY inside a subquery or CTE: the order of protected rows means nothing
    -> put ORDER BY at the end of the statement
SUBQUERY = such a subquery in an expression: %unknown
    -> compare with one number, (SELECT dp_max(x) FROM t); or x IN (SELECT y FROM u)
SUBQUERY:EXISTS = EXISTS inside of an aggregate: it is a condition on rows
    -> filter rows by it, WHERE EXISTS (...), or name it first: FROM (SELECT *, EXISTS (...) AS
    is_there FROM t)
STAR:True = COLUMNS(...): what is asked must be plain
    -> name the columns: dp_mean(x, 0, 100)
LAMBDA = a lambda, or ->: %unknown
    -> use a function of the row: list_sum(x)
whole quotient = // or % of numbers with fractions: a sum or mean has some here, and a text of a
    file may have some
    -> CAST(sum(x) AS BIGINT) // 7, or floor(sum(x) / count(*))
order of texts = an order of texts of a file: 10 would come before 9
    -> say what they are: CAST({name} AS DOUBLE), AS DATE or AS VARCHAR
order of categories = an order of categories of a frame: it would be that of their texts
    -> number them, CASE {name} WHEN 'low' THEN 1 WHEN 'high' THEN 2 END, or take their texts,
    CAST({name} AS VARCHAR)
COLLATE = COLLATE: %unknown
    -> compare lower(city) = 'rome'
ARRAY_SLICE = x[...] with anything but a number: %unknown
    -> use x[1], substring(x, 1, 3) or list_extract(x, y)
struct_pack() = {{...}}: %unknown
    -> use the fields one by one
row() = (..., ...): %unknown
    -> use the columns one by one: city = 'Rome' AND vip
path or separator = {name}(...) with a path or separator that is no constant: on one row it could
    make the query fail
    -> json_extract_string(x, '$.city'), string_split(x, ',')
order of an aggregate = {name}(...) with such an order: first and last need one, without DISTINCT or
    FILTER, and others take none
    -> first(x ORDER BY day), arg_max(x, day)
schema|catalog = a name with dots before a call or after one: %unknown
    -> write upper(city), struct_extract(place, 'city')
ESCAPE = LIKE with such an ESCAPE: a pattern or escape that is no constant, or a pattern that ends
    in the escape, could make the query fail on one row
    -> x LIKE '50!%' ESCAPE '!'
constant = {text}: it can't be read as {kind}, so that no row would fulfill a condition on it
    -> write a constant of that type: {example}
cast between types = CAST from {base} to {kind}: DuckDB has none, and every row would be NULL
    -> epoch(t) makes a number of a time, to_timestamp(x) a time of a number; or cast to VARCHAR
    first
CAST = CAST to this type: it is not on the list of types whose values are plain
    -> {near}CAST(x AS DOUBLE), or INTEGER, BIGINT, DECIMAL(9, 2), VARCHAR, BOOLEAN, DATE, TIMESTAMP
aggregate = {name}(...): it is as exact as the rows it aggregates
    -> ask for {instead}
changing = {name}(...): it changes from one evaluation to the next
    -> write a constant, DATE '2026-01-31', or now() and current_date, which are taken once
@current_time|@localtime = the current time of day: it changes from one evaluation to the next
    -> compare with now(), which is taken once for a statement
outside = {name}(...): it reaches beyond the row: files, settings, the session or an error of its
    own
    -> write a constant, or use columns of the row
@current_user|@session_user|@user|@current_role|@current_catalog|@current_schema = a name of the
    session: it reaches beyond the row
    -> write a constant: 'Rome'
unnest of a list = {name}(...): it makes many rows out of one
    -> use a function of the list: list_sum(x)
no row function = {name}(...): it is not on the list of functions of one row
    -> {near}compute the column in a table first (CREATE TABLE prepared AS ...), row by row
make_timestamp = make_timestamp of one number: it makes times that have no place in the calendar,
    whose text makes the query fail
    -> TIMESTAMP '1970-01-01' + to_seconds(x / 1e6)
part of a date = a part of a date that is not on the list: a part that is no constant, or that a
    type does not have, could make the query fail on one row
    -> date_trunc('month', d), date_part('week', d), date_diff('day', start, stop); parts are year,
    quarter, month, week, day, hour, minute, second and the like
format = strptime with a format that is no constant, or holds %Z: a time zone that is not known
    could make the query fail on one row
    -> try_strptime(x, '%Y-%m-%d %Z'), which has NULL for it
format of dates = a format of dates with such parts: those that are known are YYYY, YY, MM, Mon, DD,
    DDD, HH24, HH12, MI, SS and AM
    -> to_char(x, 'YYYY-MM-DD HH24:MI:SS'), or strftime(x, '%Y-%m-%d')
width = a bucket whose width is not so many of one unit: a width that is no constant, 0 or mixed
    could make the query fail on one row
    -> time_bucket(INTERVAL '7' DAY, d)
origin = a bucket whose origin is no constant date: a time zone that is not known, or an origin that
    is a column, could make the query fail on one row
    -> time_bucket(INTERVAL '7' DAY, d, DATE '2024-01-01')
zone = a time zone that is no constant, or not on DuckDB's list: it would make the query fail
    -> ts AT TIME ZONE 'Europe/Berlin'
too long = an expression whose value grows too long: an engine that runs out of memory on one row
    would say something about that row
    -> replace by a short constant, replace(city, ',', ', '), or prepare a table first: CREATE TABLE
    prepared AS SELECT ...
no such dp_ call = {name}(...): there is no such function
    -> {near}use one of {known}
dp_ call of a frame = {name}(...): it takes or gives several columns, and a function of SQL takes
    and gives one
    -> ask {instead}
dp_ call here = {name}(...) here: a dp_ call aggregates rows; it can't stand in WHERE, GROUP BY, a
    subquery, a CTE, a view or another call
    -> SELECT city, dp_mean(x, 0, 100) AS m FROM t GROUP BY city HAVING m > 10
arguments of a dp_ call = {function} with these arguments: it takes {values}, then constants
    -> write one of {calls}{known}
large epsilon = {function} with the epsilon {amount} by its place: a constant that follows is an
    epsilon unless it is one of a pair of bounds, and one above 20 protects little
    -> give both bounds, dp_mean(x, 0, 240), or name it: dp_mean(x, epsilon := 240)
dates as bounds = {function} within dates or times: it takes numbers, and these are none
    -> ask dp_median(x), dp_quantile(x, 0.9), dp_min(x) or dp_max(x), which take such bounds, or
    count days: date_diff('day', DATE '2013-01-01', x)
no constant = {what} that is no constant number: noise and bounds are fixed before a row is read
    -> write numbers that you know without looking at the data: dp_mean(x, 0, 100, 0.5),
    dp_quantiles(x, [0.25, 0.75]), dp_keep(1e-6), LIMIT 10
name = a named argument: arguments go by place
    -> dp_mean(x, 0, 100, 0.5)
distinct = DISTINCT in a call: %several
    -> dp_nunique(x) counts different values; else leave DISTINCT out, and bound people instead:
    unit='user_id', max_rows=1
order_bys = ORDER BY inside a call: %several
    -> leave it out: dp_quantile(x, 0.9) needs no order
filter = FILTER (WHERE ...) after this call: it is no aggregate that has a private form
    -> dp_mean(x, 0, 100) FILTER (WHERE y > 1)
STAR = *: it would show rows as they are
    -> name what is to be released: SELECT city, dp_count(*) FROM t GROUP BY city
column outside a dp_ call = column {quoted} outside a dp_ call: it is not a key of GROUP BY, and
    rows are not shown
    -> GROUP BY {name}, or aggregate it: dp_mean({name}, 0, 100)
two columns in the result = two columns called {twice!r} in the result: each needs a name of its own
    -> name one of them: dp_mean(x, 0, 100) AS mean_x
WINDOW = a window function (OVER): %several
    -> CREATE TABLE released AS SELECT city, dp_count(*) AS n FROM t GROUP BY city HAVING
    dp_keep(1e-6), then work with that table
a window in HAVING = a window function in HAVING: HAVING comes before windows
    -> use QUALIFY: SELECT city, dp_count(*) AS n FROM t GROUP BY city QUALIFY rank() OVER (ORDER BY
    n DESC) <= 3
a place = place {place} in GROUP BY or ORDER BY: the SELECT list has no such place
    -> use a number from 1 to {length}, or the expression
GROUP BY a constant = GROUP BY a constant: it makes no groups
    -> leave GROUP BY out for the whole table
GROUP BY () = GROUP BY (): it names no group
    -> leave GROUP BY out for the whole table
a grouping set twice = a grouping set twice: each of its rows would come twice
    -> leave one of them out
no totals = {question} in ROLLUP, CUBE or GROUPING SETS: its totals do not follow from its cells
    -> counts, and sums and means with bounds, dp_sum(x, 0, 100) or bounds of a schema, do; ask for
    others in a statement of their own
keys without an order = keys of such a type in ROLLUP, CUBE or GROUPING SETS: lists, structs and
    intervals have no order
    -> GROUP BY ROLLUP (CAST(tags AS VARCHAR))
GROUPING of no key = GROUPING(...) of what is no key: it tells which keys are added up
    -> GROUP BY ROLLUP (city, vip), and GROUPING(city)
GROUPING_FUNCTION = GROUPING(...) here: it tells which keys of the groups are added up
    -> SELECT city, GROUPING(city) AS g, dp_count(*) FROM t GROUP BY ROLLUP (city)
no count of rows = calls about different conditions that all name an epsilon: no count of rows is
    left to select the groups
    -> ask count(*) too, or HAVING dp_keep(1e-6, 0.5)
dp_keep elsewhere = dp_keep outside HAVING, or inside an expression: it selects groups before
    anything else is looked at
    -> GROUP BY city HAVING dp_keep(1e-6) AND dp_count(*) > 100
arguments of dp_keep = dp_keep with these arguments: it takes a delta, and an epsilon where a count
    of its own selects the groups
    -> write dp_keep(1e-6) or dp_keep(1e-6, 0.5)
dp_keep twice = dp_keep twice, or without GROUP BY: groups are selected once, where there are some
    -> SELECT city, dp_count(*) FROM t GROUP BY city HAVING dp_keep(1e-6)
dp_keep and terms = dp_keep and {other} together: both say which groups are shown
    -> leave one of them out: HAVING dp_keep(1e-6), or {other}...
limit_type = LIMIT in per cent: %unknown
    -> LIMIT 10
modifiers = ORDER BY or LIMIT twice: %unknown
    -> put ORDER BY and LIMIT at the end of the statement
rows beside answers = {rows!r} beside released answers: it stands for rows, and what is done with
    answers may look at nothing else
    -> aggregate it in a CTE of its own: WITH r AS (SELECT city, dp_count(*) AS n FROM t GROUP BY
    city) SELECT max(n) FROM r
count of released groups = a count of groups that are released by secret keys: groups of few units
    are hidden, and it would not count them
    -> count values, count(DISTINCT session); or the groups of each unit, SELECT count(*) FROM
    (SELECT user_id, session FROM t GROUP BY user_id, session); to count released groups, write
    dp_count(*) in the subquery
unnamed table = table {name!r}, which the schema does not name: whom its rows are about is not known
    -> link it, links={{'{last}.customer': 'customer.id'}}, or declare it public, public=['{last}']
public tables alone = a release of public tables alone: there is no one to protect
    -> leave the dp_ calls out: SELECT count(*) FROM nation is answered exactly, at no cost
answers alone = a dp_ call over released answers: they are public already
    -> leave it out, SELECT max(n) FROM (SELECT city, dp_count(*) AS n FROM t GROUP BY city); or
    GROUP BY the unit too, so that the subquery is about rows
GROUP BY the unit = GROUP BY the unit, or a key of its rows, in the outermost SELECT: each row of
    the result would be about a single unit
    -> group by what many units share: SELECT nation, dp_count(*) FROM customer GROUP BY nation; or
    use the groups of units in a subquery: FROM (SELECT id, count(*) AS n ... GROUP BY id)
join across units = a join of rows of one unit with those of others: rows of several units would
    meet; each unit's rows are joined with its own
    -> add the unit to the condition: {condition}
GROUP BY across units = GROUP BY without the unit in a subquery, CTE or view: an aggregate over
    several units is a release of its own
    -> GROUP BY {unit} too; or ask by dp_ calls, which are drawn first
number about everybody = a number about everybody inside of a condition: it is a release of its own
    -> write a dp_ call, which is drawn first: (SELECT dp_mean(x, 0, 100) FROM t); or compare with
    the unit's own rows: WHERE o.customer = c.id in the subquery
DISTINCT across units = DISTINCT without the unit's column: rows of several units would count as one
    -> add the column that names the unit: SELECT DISTINCT customer, city FROM ...
window across units = a window without the unit in PARTITION BY: it looks at rows of several units
    -> PARTITION BY {unit}, ...
public to protected = {join} from a public table to a protected one: which public rows have no match
    depends on everybody at once
    -> put the protected table first: FROM orders LEFT JOIN nation ON ...
keys of a public table = a LEFT JOIN from a public table to protected rows, with more than a list of
    its keys: it is answered as the groups of the public table, those without rows among them
    -> GROUP BY columns of the public table, aggregate columns of the protected one, and filter
    these in ON: SELECT d.day, count(o.id) FROM dates d LEFT JOIN orders o ON o.day = d.day GROUP BY
    d.day
NATURAL JOIN = a NATURAL JOIN of tables without a common column: it would pair all rows
    -> JOIN t ON t.id = u.customer
ASOF JOIN = such an ASOF JOIN: it is INNER or LEFT, compares columns by = and one pair by >=, >, <=
    or <, and has protected rows on its left
    -> FROM orders o ASOF JOIN rates r ON r.currency = o.currency AND o.day >= r.day
FULL JOIN = a FULL JOIN with a public table: which public rows have no match depends on everybody at
    once
    -> ask two questions: LEFT JOIN, and a public table by itself
POSITIONAL JOIN = POSITIONAL JOIN: the order of protected rows means nothing
    -> JOIN ... USING (key)
column of several tables = column {name!r}, which several tables have: it must be plain which is
    meant
    -> write {names}
set operation = {operation}{every}: it counts how often a row stands in each list
    -> leave ALL out: SELECT user_id FROM a {operation} SELECT user_id FROM b
UNION ALL of both = UNION ALL of protected and public rows: rows of nobody would stand among those
    with an owner
    -> ask about the protected ones, and add public numbers to the answer
UNION of columns = UNION of different columns: each needs a partner
    -> name the columns
UNION ALL of types = UNION ALL of columns {name!r} of different types: turning one into the other
    could fail on a row
    -> CAST both to one type, e.g. CAST(x AS VARCHAR)
too many relations = a statement of too many relations: each use of a CTE or view stands for its own
    copy of it
    -> split it into several statements
subquery in ON = a subquery in ON of a LEFT, SEMI or ANTI JOIN, or on its right side: it would have
    to be known of rows that are not joined yet
    -> filter in a subquery of its own: LEFT JOIN (SELECT * FROM orders WHERE order_id IN (SELECT
    order_id FROM item)) AS o ON o.customer = c.id
LATERAL = a subquery in FROM that names columns of tables before it in this place: it may filter the
    rows of its own tables, aggregate them without GROUP BY, or take the first of equal ones
    -> number, group or order rows by themselves, and join them: JOIN (SELECT *, row_number() OVER
    (PARTITION BY customer ORDER BY day) AS place FROM orders) AS o ON o.customer = c.id AND place
    <= 2
correlated = a subquery that names columns of the statement around it in this place: only its WHERE
    can
    -> compare in its WHERE: EXISTS (SELECT 1 FROM orders AS o WHERE o.customer = c.id)
subquery without FROM = a subquery without FROM in a condition or an expression: it is no more than
    what it says of the row beside it
    -> write that itself: WHERE nation > 2, not WHERE EXISTS (SELECT 1 WHERE nation > 2); and
    list_contains(tags, 'a') for 'a' = ANY(tags)
correlated by more than equality = a scalar subquery that is compared with the rows around it
    by more than =: each row needs its group of rows to aggregate
    -> (SELECT max(o.total) FROM orders AS o WHERE o.customer = c.id)
no one aggregate = a scalar subquery that is not one aggregate: it could have several rows, and fail
    on them
    -> (SELECT max(o.total) FROM orders AS o WHERE o.customer = c.id)
IN over several columns = IN over such columns: each needs its place, and NOT IN and an IN inside of
    an expression take one
    -> WHERE (x, y) IN (SELECT a, b FROM t), x NOT IN (SELECT y FROM t)
group_sets = ROLLUP, CUBE and GROUPING SETS in a subquery or CTE: it puts a row into several groups
    at once
    -> SELECT city, dp_count(*) FROM t GROUP BY city
column beside aggregates = column {column!r} beside aggregates: it is no key of GROUP BY
    -> GROUP BY {column}, or aggregate it: max({column})
aggregate in a subquery = {name}(...) in a subquery: it is not on the list of aggregates that do not
    depend on the order of rows
    -> use one of {known}
arguments of an aggregate = {name}(...) with these arguments: it takes one
    -> {name}(x)
no conditions = {name}(...) of {base}: it takes conditions
    -> {name}(x > 1)
no numbers = {name}(...) of {base}: it takes numbers
    -> {name}(TRY_CAST(x AS DOUBLE))
argument of a window function = {name}(...) with such an argument: what follows the value is a whole
    number from 1 to 2147483647
    -> lag(x, 2)
no argument of a window function = {name}() without its argument: it takes one
    -> {name}(x)
parts of a window function = a window function with DISTINCT, FILTER, ORDER BY or IGNORE NULLS:
    %unknown
    -> filter or order in a subquery below the window
EXCLUDE in a window = EXCLUDE in a window: %unknown
    -> leave it out, and subtract the row itself: sum(x) OVER (PARTITION BY customer) - x
a window frame by RANGE or GROUPS = a window frame by RANGE or GROUPS: %unknown
    -> count rows: ROWS BETWEEN 2 PRECEDING AND CURRENT ROW
a window frame without a constant size = a window frame without a constant size: how many rows
    must be a plain number below 2147483648
    -> ROWS BETWEEN 2 PRECEDING AND CURRENT ROW
equal values that differ = {what}, which is {base}: equal values of that type can differ, and which
    of them is taken depends on others
    -> CAST it to text first: CAST(x AS VARCHAR)
running sum = a running sum of {name!r}, which is {base}: a sum of such numbers depends on their
    order in the last digit
    -> CAST(x AS DECIMAL(18, 4))
several protected rows = {what} of protected rows: each row is protected by itself, and this looks
    at several
    -> name whose rows they are: unit='user_id', max_rows=5
join without equality = a join with a public table without an equality: a protected row would count
    as often as it has matches
    -> JOIN nation ON nation.id = customer.nation; or protect units: unit='user_id'
several matches = a join with a public table that has several rows of one {names}: a protected row
    would count several times
    -> keep one row of each key: QUALIFY row_number() OVER (PARTITION BY key ORDER BY day) = 1; or
    declare how many there are at most: Schema(matches={{'prices.key': 4}}); or protect units:
    unit='user_id', max_rows=5
several released matches = a join with a released table that may have several rows of one {names}:
    a protected row would count several times
    -> join by all keys of the released table, or group it by {names} first; or protect units:
    unit='user_id', max_rows=5
type of a unit = a unit of type {base}: equal values of it can look different, and it must be plain
    who is who
    -> name units by numbers or text: CAST(x AS VARCHAR)
types of a link = the link from {name}.{own} ({one}) to {above}.{key} ({two}): types that differ
    could fail to compare on a row
    -> give both one type: ALTER TABLE ... ALTER ... TYPE ...; a CSV file holds texts, and Parquet
    has types
view in a schema = view {name!r} in the schema: its rows are those of the tables below it
    -> name these tables in the schema: a statement can read the view then; of Parquet files the
    schema names a view of all columns without options, CREATE VIEW t AS FROM 'trips/*.parquet'
table twice = table {name!r} twice in the schema: it has one meaning
    -> name it once
table without a link = table {table!r}, which has bounds or matches: the schema does not link it
    -> link it
view without definition = a view without a definition of its own: it stands for a Python object, a
    file or a function, whose rows are not known
    -> pass the frame itself by a name, and no con: dfp.sql('SELECT dp_count(*) FROM {name}',
    {name}=frame); or copy it: CREATE TABLE copied AS FROM {shown}
tables of one name = {name} in a view: there are several tables of that name, and versions of DuckDB
    differ in which of them a view reads
    -> name the database too: CREATE OR REPLACE VIEW v AS SELECT * FROM memory.main.t
another system = {name} in a database of another system: how that reads a row, and what it says when
    it can't, is not known
    -> copy the table first: CREATE TABLE copied AS FROM {name}
GENERATED = column {own!r}, which is GENERATED ALWAYS: it is computed when it is read, and one row
    could end the query
    -> name the columns that it is computed of, and write the expression yourself
setting = a connection with {name} = {value}: a statement keeps the meaning that it has without
    -> RESET {name}
calendar = a connection with a calendar of its own: some have no place for every date, and one of
    these would end the query
    -> SET Calendar = 'gregorian'
locked = a connection whose configuration is locked: rows are read with the optimizer off, which it
    does not allow
    -> PRAGMA disable_optimizer before SET lock_configuration = true
profiling = a connection that profiles its queries or logs them: that tells how many rows and groups
    there are
    -> PRAGMA disable_profiling; CALL disable_logging()
macro = the macro {name!r} of this connection: it hides a function of DuckDB's that rows are read
    with
    -> DROP MACRO {quoted}, and give it another name
Python function = the Python function {name!r} of this connection: it goes by the name of a function
    of DuckDB's that rows are read with
    -> con.remove_function({name!r}), and give it another name
"""
"""A rule is its names, with bars between them, the construct, why it is refused, and what to write.

Words in braces come from what is refused; % begins the name of a phrase that several rules share.
"""


def _refusals(text: str) -> Iterator[tuple[str, Refusal]]:
    """Yield the rules of a text by each of their names."""
    phrases: dict[str, str] = {}
    for entry in re.split(r"\n+(?=\S)", text.strip()):
        names, _, words = " ".join(entry.split()).partition(" = ")
        message, _, rewrite = words.partition(" -> ")
        construct, _, why = message.partition(": ")
        if names.startswith("%"):
            phrases[names] = words
            continue
        rule = Refusal(construct, phrases.get(why, why), phrases.get(rewrite, rewrite))
        yield from ((name, rule) for name in names.split("|"))


REFUSALS: Mapping[str, Refusal] = dict(_refusals(_TEXT))
