// Content that the checks and the screenshots share.

export const RELEASE_NOTES = `---
name: release-notes
description: Write release notes from the commits since the last tag. Use before a release.
license: Apache-2.0
allowed-tools: Bash(git:*) Read
metadata:
  tags: git writing
---
# Release notes

Write notes that a reader understands in a **minute**.

## Steps

1. Run [the script](scripts/log.sh) for the commits.
2. Group them: *added*, *changed*, *fixed*.
3. Follow the [style guide](references/style.md).

\`\`\`sh
# Commits since the last tag
git log --oneline "$(git describe --tags --abbrev=0)"..HEAD
\`\`\`

| group | contains |
|---|---|
| added | new features |
| changed | behaviour that is different |
| fixed | bugs |

> A change that nobody notices needs no note.

- [x] Read the commits
- [ ] Ask about breaking changes
`;

const EXAMPLES = {
  pdf: ['Extract text and tables from PDF files, fill in forms and merge documents. Use when a PDF is involved.', 'documents'],
  'code-review': ['Review a change for correctness, tests and names. Use before a merge.', 'git'],
  weather: ['Forecasts for any city. Use when the weather decides something.', 'data'],
  'meeting-notes': ['Turn a transcript into decisions and tasks. Use after a meeting.', 'writing'],
  'sql-style': ['Write queries that others can read. Use for every query that is kept.', 'data'],
  incident: ['Lead through an incident, from the first alarm to the report. Use when something is down.', 'operations'],
  'brand-voice': ['Words and tone of the company. Use for texts that customers read.', 'writing'],
  translate: ['Translate text and keep its tone. Use when the reader speaks another language.', 'writing'],
};

/** Adds a registry's worth of skills. */
export function addExamples(run) {
  const folder = 'examples';
  run.write(`${folder}/release-notes/SKILL.md`, RELEASE_NOTES);
  run.write(`${folder}/release-notes/scripts/log.sh`, '#!/bin/sh\n# Prints the commits since the last tag.\ngit log --oneline "$(git describe --tags --abbrev=0)"..HEAD\n');
  run.write(`${folder}/release-notes/references/style.md`, '# Style\n\nOne line a change. Present tense.\n');
  for (const [name, [description, tag]] of Object.entries(EXAMPLES)) {
    const title = name[0].toUpperCase() + name.slice(1).replace('-', ' ');
    run.write(`${folder}/${name}/SKILL.md`, `---\nname: ${name}\ndescription: ${description}\nmetadata:\n  tags: ${tag}\n---\n# ${title}\n\n${description}\n`);
  }
  run.skills('add', run.write(`${folder}/.keep`, '').replace('/.keep', ''));
}

/** A document with every feature of Markdown, long enough to scroll. */
export const EVERYTHING = `---
name: everything
description: Every feature of Markdown in one document.
---
# Everything

Text with *emphasis*, **strong**, ~~deleted~~, \`code\`, a [link](https://example.com "title"), an <https://example.com> and a hard  
break. A footnote[^1], an entity &amp; and an emoji 👩‍💻.

[^1]: The note.

## Lists

- one
  - two
    - three
1. first
2. second
   \`\`\`python
   def three(): return 3  # indented
   \`\`\`
- [x] done
- [ ] open

## Table

| left | middle | right |
|:-----|:------:|------:|
| a | b | 1 |
| ${'long '.repeat(40)} | c | 2 |

> Quote
>
> > in a quote

***

![missing](https://example.com/x.png) ![bundle](pixel.png)

<details><summary>More</summary>

Hidden **text**.

</details>

${'A paragraph of ordinary length that fills the page, so that it has to scroll. '.repeat(10)}

${Array.from({ length: 30 }, (_, at) => `### Part ${at + 1}\n\n${'Words. '.repeat(60)}\n`).join('\n')}
`;
