"""Read the statements of tests from files beside them."""

from pathlib import Path

FOLDER = Path(__file__).parent


def read_statements(file_name: str) -> list[str]:
    """Read the lines of a file: a statement each."""
    return (FOLDER / file_name).read_text(encoding="utf-8").splitlines()


def read_examples(file_name: str) -> dict[str, dict[str, str]]:
    """Read examples by heading and rule: `# heading` or `rule := example` in each line."""
    examples: dict[str, dict[str, str]] = {}
    for line in read_statements(file_name):
        if line.startswith("# "):
            rules = examples.setdefault(line.removeprefix("# "), {})
        else:
            rule, _, example = line.partition(" := ")
            rules[rule] = example
    return examples
