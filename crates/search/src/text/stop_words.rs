//! Words that say little about a task.

/// Words that most sentences have, sorted. They are dropped from a query that has others.
const STOP_WORDS: &[&str] = &[
    "a", "about", "after", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be",
    "because", "been", "before", "being", "but", "by", "can", "could", "did", "do", "does",
    "doing", "dont", "each", "few", "for", "from", "had", "has", "have", "having", "he", "help",
    "her", "here", "him", "his", "how", "i", "id", "if", "ill", "im", "in", "into", "is", "it",
    "its", "ive", "just", "like", "me", "more", "most", "my", "need", "needs", "no", "not", "of",
    "off", "on", "one", "only", "or", "our", "out", "over", "own", "please", "s", "same", "she",
    "should", "so", "some", "such", "t", "than", "that", "the", "their", "them", "then", "there",
    "these", "they", "this", "those", "through", "to", "too", "up", "us", "use", "user", "users",
    "using", "very", "want", "wants", "was", "we", "were", "what", "when", "where", "which",
    "while", "who", "why", "will", "with", "would", "you", "your",
];

/// Words that name a task in general, sorted. They count, but less than the words that name its object.
const GENERIC_WORDS: &[&str] = &[
    "add",
    "anything",
    "app",
    "application",
    "apply",
    "based",
    "best",
    "better",
    "build",
    "bunch",
    "change",
    "check",
    "clean",
    "code",
    "complete",
    "create",
    "current",
    "different",
    "easy",
    "existing",
    "file",
    "files",
    "find",
    "fix",
    "get",
    "give",
    "go",
    "good",
    "great",
    "guide",
    "handle",
    "helper",
    "improve",
    "keep",
    "know",
    "let",
    "look",
    "lot",
    "make",
    "making",
    "manage",
    "many",
    "multiple",
    "new",
    "nice",
    "other",
    "people",
    "project",
    "proper",
    "properly",
    "put",
    "quick",
    "quickly",
    "right",
    "run",
    "set",
    "show",
    "skill",
    "skills",
    "something",
    "start",
    "stuff",
    "support",
    "sure",
    "take",
    "task",
    "tasks",
    "tell",
    "thing",
    "things",
    "time",
    "tool",
    "tools",
    "try",
    "turn",
    "two",
    "without",
    "work",
    "working",
    "write",
];

/// Returns whether a folded word is a stop word.
#[must_use]
pub(crate) fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.binary_search(&word).is_ok()
}

/// Returns whether a folded word names tasks in general.
#[must_use]
pub(crate) fn is_generic_word(word: &str) -> bool {
    GENERIC_WORDS.binary_search(&word).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_lists_are_sorted_and_distinct() {
        assert!(STOP_WORDS.is_sorted(), "{:?}", STOP_WORDS.windows(2).find(|w| w[0] > w[1]));
        let unsorted = GENERIC_WORDS.windows(2).find(|pair| pair[0] > pair[1]);
        assert!(unsorted.is_none(), "{unsorted:?}");
        assert!(STOP_WORDS.iter().all(|word| !is_generic_word(word)));
    }
}
