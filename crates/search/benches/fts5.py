#!/usr/bin/env python3
"""Search quality of SQLite's FTS5 on the fixture corpus, as a reference for the index of this crate.

Columns are weighted, words are stemmed (`porter unicode61`), and a query is the disjunction of its words without stop
words, the last one as a prefix. Prints the figures per class for the even-numbered queries, which no weight was tuned on.
"""

import pathlib
import re
import sqlite3

FIXTURES = pathlib.Path(__file__).parent.parent / "tests" / "fixtures"
WEIGHTS = "10.0, 6.0, 5.0, 4.0, 1.0"
STOP_WORDS = set(
    "a an and are as at be by can do for from have how i in is it me my need of on or please so that the this to want we "
    "what when with you your".split()
)


def fields(path):
    text = path.read_text()
    front, body = "", text
    if text.startswith("---\n"):
        front, body = text[4:].split("\n---", 1)
    description = re.search(r"^description:\s*(.*(?:\n[ \t]+.*)*)", front, re.M)
    tags = re.search(r"^\s*(?:tags|keywords|triggers):\s*(.*(?:\n[ \t]*[- ].*)*)", front, re.M)
    title = re.search(r"^# (.*)", body, re.M)
    found = [match.group(1) if match else "" for match in (title, tags, description)]
    return [path.stem, *found, body]


def main():
    database = sqlite3.connect(":memory:")
    database.execute(
        "CREATE VIRTUAL TABLE skill USING fts5(id, title, tags, description, body, tokenize = 'porter unicode61')"
    )
    rows = [fields(path) for path in sorted((FIXTURES / "corpus").glob("*.md"))]
    database.executemany("INSERT INTO skill VALUES (?, ?, ?, ?, ?)", rows)
    figures, numbers = {}, {}
    for line in (FIXTURES / "queries.tsv").read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        name, query, ids = line.split("\t")[:3]
        numbers[name] = numbers.get(name, 0) + 1
        if numbers[name] % 2:
            continue
        words = re.findall(r"\w+", query.lower())
        words = [word for word in words if word not in STOP_WORDS] or words
        match = " OR ".join(f'"{word}"' for word in words) + ("*" if words else "")
        sql = f"SELECT id FROM skill WHERE skill MATCH ? ORDER BY bm25(skill, {WEIGHTS}) LIMIT 20"
        found = [row[0] for row in database.execute(sql, (match,))] if words else []
        wanted = {one.strip() for one in ids.split(",")}
        rank = next((at for at, one in enumerate(found) if one in wanted), None)
        for group in (name, "all"):
            figures.setdefault(group, []).append(rank)
    print("| class | queries | Hit@1 | recall@5 | MRR |\n|---|---|---|---|---|")
    for name, ranks in figures.items():
        share = lambda most: sum(rank is not None and rank < most for rank in ranks) / len(ranks)
        reciprocal = sum(1 / (rank + 1) for rank in ranks if rank is not None) / len(ranks)
        print(f"| {name} | {len(ranks)} | {share(1):.2f} | {share(5):.2f} | {reciprocal:.2f} |")


if __name__ == "__main__":
    main()
