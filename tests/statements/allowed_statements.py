"""All statements that are allowed, with their plan, their cost and their groups."""

from tests.statements import allowed_answers, allowed_groups, allowed_groups_2, allowed_rows

ALLOWED = [
    *allowed_answers.ALLOWED,
    *allowed_groups.ALLOWED,
    *allowed_groups_2.ALLOWED,
    *allowed_rows.ALLOWED,
]
