"""Inputs for the comparison: folders with a SKILL.md, the same ones on every run.

Tables of values that are on the edge of a rule, every value in an otherwise good document; then random
combinations of them, and documents with random edits.
"""

import random
from dataclasses import dataclass

SEED = 20261116
COMBINATIONS = 1500
EDITS = 2500

GOOD_DESCRIPTION = "Reads PDF files. Use when the user asks for one."
BODY = "# Title\n\nText.\n"


@dataclass(frozen=True)
class Case:
    directory: str
    document: bytes
    file: str = "SKILL.md"


# What is written after `name: `, and the folder.
NAMES = [
    ("my-skill", "my-skill"), ("a", "a"), ("0", "0"), ("a1-b2-c3", "a1-b2-c3"), ("a" * 64, "a" * 64),
    ("a" * 65, "a" * 65), ("技" * 64, "技" * 64), ("技" * 65, "技" * 65), ("claude-x", "claude-x"), ("123", "123"),
    ("1.10", "1.10"), ("true", "true"), ("yes", "yes"), ("null", "null"), ("~", "~"), ("", "x"), ("''", "x"),
    ("' '", "x"), ("'my-skill'", "my-skill"), ('" my-skill "', "my-skill"), ("My-Skill", "My-Skill"),
    ("my_skill", "my_skill"), ("my skill", "my skill"), ("-a", "-a"), ("a-", "a-"), ("-", "-"), ("a--b", "a--b"),
    ("-A--b_c-", "-A--b_c-"), ("other", "my-skill"), ("my-skill", "My-Skill"), ("my-skill", "my-skil"),
    ("a.b", "a.b"), ("a/b", "b"), ("a:b", "a:b"), ("a,b", "a,b"), ("a+b", "a+b"), ("a#b", "a#b"), ("a #b", "a"),
    ("ａｂｃ", "abc"), ("abc", "ａｂｃ"), ("ﬁle", "file"), ("cafe\u0301", "café"), ("café", "cafe\u0301"),
    ("𝐚", "a"), ("straße", "straße"), ("ı", "ı"), ("ς", "ς"), ("σ", "ς"), ("x²", "x²"), ("x²", "x2"), ("٣", "٣"),
    ("ⅳ", "iv"), ("技能", "技能"), ("שלום", "שלום"), ("ภาษาไทย", "ภาษาไทย"), ("Ⅳ", "Ⅳ"), ("İ", "İ"), ("ǅ", "ǅ"),
    ("НАВЫК", "НАВЫК"), ("навык", "навык"), ("𐐀", "𐐀"), ("नमस्ते", "नमस्ते"), ("🎃", "🎃"), ("a\u200db", "a\u200db"),
    ("a–b", "a–b"), ("a‑b", "a‑b"), ("\u00a0a", "a"), ("½", "½"), ("ª", "a"), ("한국어", "한국어"),
    ("[a]", "a"), ("{a: b}", "a"), ("\n- a", "a"), ("\n  b: c", "a"), ("|\n  a", "a"), (">-\n  a", "a"),
    ("a\n  b", "a b"), ("&x a", "a"), ("*x", "a"), ("!!str a", "a"), ("!x a", "a"), ("\ta", "a"), ("a ", "a"),
]

DESCRIPTIONS = [
    GOOD_DESCRIPTION, "x", "", "''", "' '", "null", "~", "123", "true", "x" * 1024, "x" * 1025, "🎃" * 1024,
    "🎃" * 1025, "'" + "x" * 1024 + " '", "Use this when: the user", "'Use this when: the user'", "a --- b",
    '"a---b"', "x ---", "---", "a # b", "a: b: c", "- a", "\n- a", "[a, b]", "{a: b}", "|\n  two\n  lines\n",
    ">\n  folded\n  lines\n", "|\n  " + "x" * 1024 + "\n", "|-\n  " + "x" * 1024 + "\n", "two\n  lines", "&a b",
    "*a", "!t b", "'open", '"\\q"', '"\\u00e9"', "%x", "@x", "`x`", "!", "技能", "a\tb", "\u202ea", "a\x07b", "a\x00b",
    "a\u0085b", "'it''s'", '"quoted"', "x" * 200 + ": y",
]

# What is added after name and description.
MORE = [
    "", "license: MIT", "license:", "license: ''", "license: 1.0", "license: LICENSE.txt", "license:\n  - MIT",
    "license: [MIT]", "license:\n  a: b", "compatibility: Needs git", "compatibility:", "compatibility: ''",
    "compatibility: ' '", "compatibility: null", "compatibility: 1", "compatibility: " + "é" * 500,
    "compatibility: " + "é" * 501, "compatibility:\n  - a", "compatibility: [a]", "compatibility:\n  a: b",
    "metadata:\n  author: x\n  version: \"1.0\"", "metadata:\n  version: 1.0", "metadata:\n  a:\n    b: c",
    "metadata:\n  a:\n    - b", "metadata: text", "metadata:", "metadata:\n  - a", "metadata: {a: b}",
    "metadata: {}", "metadata:\n  a:", "metadata:\n  a: null", "metadata:\n  1: a", "metadata:\n  a: 1\n  a: 2",
    "allowed-tools: Read", "allowed-tools: Bash(git:*) Read", "allowed-tools: Bash(git add *) Read",
    "allowed-tools: Bash, Read", "allowed-tools: [Bash, Read]", "allowed-tools:\n  - Bash\n  - Read",
    "allowed-tools:", "allowed-tools: ''", "allowed-tools: Bash(git Read", "allowed-tools: 1",
    "allowed-tools:\n  a: b", "allowed-tools: *", "allowed-tools: \"*\"", "allowed-tools: Bash(git: *)",
    "version: 1.0.0", "disable-model-invocation: true", "user-invocable: false", "model: opus", "context: fork",
    "agent: Explore", "hooks:\n  a: b", "argument-hint: '[file]'", "argument-hint: [file]", "colour: red",
    "Name: x", "allowed_tools: Read", "1: x", "true: x", "\"\": x", "? a\n: b", "name: again", "license: a\nlicense: b",
    "license: MIT # comment", "# only a comment", "license: &a MIT\ncompatibility: *a", "license: !!str MIT",
    "<<: {license: MIT}", "license:  MIT  ", "license : MIT", "license:MIT", " license: MIT", "\tlicense: MIT",
    "metadata:\n\ta: b", "...", "%YAML 1.2", "- a", "text", "license: 'MIT", "license: \"MIT", "license: MIT'",
]

# Whole documents; {} is the frontmatter of a good one.
SHAPES = [
    "---\n{}---\n" + BODY, "---\n{}---", "---\n{}---\n", "---\r\n{}---\r\n" + BODY, "\ufeff---\n{}---\n" + BODY,
    "\n---\n{}---\n" + BODY, " ---\n{}---\n" + BODY, "--- \n{}---\n" + BODY, "---\n{}--- \n" + BODY,
    "---\n{}---\t\n" + BODY, "---\n{} ---\n" + BODY, "---\n{}----\n" + BODY, "----\n{}---\n" + BODY,
    "---\n{}...\n" + BODY, "---\n{}" + BODY, "---yaml\n{}---\n" + BODY, "--- # c\n{}---\n" + BODY,
    "---\n{}--- # c\n" + BODY, "---\n---\n" + BODY, "---\n\n---\n" + BODY, "---\n# c\n---\n" + BODY, "------", "---",
    "", "\n", " ", "\ufeff", BODY, "+++\n{}+++\n" + BODY, "---\n- a\n---\n" + BODY, "---\ntext\n---\n" + BODY,
    "---\n[a]\n---\n", "---\n{}\n---\n", "---\nnull\n---\n", "---\n{}---\n---\n" + BODY, "---\n\n{}\n---\n" + BODY,
    "---\n{}---\n" + "x\n" * 600, "---\n{}---\n\x00\n", "---\n{}---\n\u202e\n", "---\r{}---\r", "\f---\n{}---\n",
    "---\n{}--- text\n---\n" + BODY, "---\n  name: my-skill\n  description: d\n---\n", "```\n---\n{}---\n```\n",
]

EDIT_TEXTS = [
    "---", "\n---\n", "\n", "\n\n", " ", "  ", "\t", ":", ": ", "'", '"', "#", " #", "-", "- ", "--", "[", "]", "{", "}",
    "&a ", "*a", "!", "|", ">", "%", "@", "`", ",", "?", "? ", "\\", "\r", "\r\n", "\ufeff", "\u200b", "é", "A", "0", "~",
    "null", "name: ", "description: ", "license: x\n", "x: y\n", "...", "\n...\n", "é" * 70, "<<: ",
]


def fields(name, description, more=""):
    return f"name: {name}\ndescription: {description}\n" + (f"{more}\n" if more else "")


def framed(frontmatter):
    return f"---\n{frontmatter}---\n{BODY}"


def tables():
    for name, directory in NAMES:
        yield directory, framed(fields(name, GOOD_DESCRIPTION))
    for description in DESCRIPTIONS:
        yield "my-skill", framed(fields("my-skill", description))
    for more in MORE:
        yield "my-skill", framed(fields("my-skill", GOOD_DESCRIPTION, more))
    good = fields("my-skill", GOOD_DESCRIPTION)
    for shape in SHAPES:
        yield "my-skill", shape.replace("{}", good, 1)
    yield "my-skill", framed("name: my-skill\n")
    yield "my-skill", framed(f"description: {GOOD_DESCRIPTION}\n")
    yield "my-skill", framed(good).replace("\n", "\r\n")


def combinations(random):
    for _ in range(COMBINATIONS):
        name, directory = random.choice(NAMES)
        more = "\n".join(random.choice(MORE) for _ in range(random.randint(0, 2)))
        text = fields(name, random.choice(DESCRIPTIONS), more)
        if random.random() < 0.1:
            lines = text.split("\n")
            random.shuffle(lines)
            text = "\n".join(lines) + "\n"
        yield directory, random.choice(SHAPES[:8] + [SHAPES[0]] * 40).replace("{}", text, 1)


def edits(random):
    good = [text for directory, text in tables() if directory == "my-skill" and len(text) < 600]
    for _ in range(EDITS):
        text = random.choice(good)
        for _ in range(random.randint(1, 3)):
            at = random.randint(0, len(text))
            cut = random.choice([0, 0, 0, 1, 1, 4])
            text = text[:at] + random.choice(EDIT_TEXTS + [""] * 8) + text[at + cut:]
        yield "my-skill", text


def generate():
    """Returns all cases without duplicates."""
    source = random.Random(SEED)
    texts = [*tables(), *combinations(source), *edits(source)]
    cases = [Case(directory, text.encode()) for directory, text in texts]
    good = framed(fields("my-skill", GOOD_DESCRIPTION)).encode()
    cases += [Case("my-skill", good, file) for file in ["skill.md", "Skill.md", "SKILL.MD"]]
    for bad in [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf5\x80\x80\x80"]:
        cases += [Case("my-skill", good + bad), Case("my-skill", good.replace(b"PDF", bad)), Case("my-skill", bad + good)]
    return list(dict.fromkeys(cases))
